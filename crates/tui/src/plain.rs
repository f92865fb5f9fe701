//! Lines one after the other, for screen readers and for terminals that can do nothing else.
//!
//! A command is a line: keys as on the screen, one after the other; or `/NAME`, `F EXPR`, `t TIME`. An empty line shows the
//! next page, one with a blank is Enter.

use std::io::{BufRead, Result, Write};
use std::time::Duration;

use crate::app::{App, KeyPress};

/// Lines of a page, and columns of a line.
const PAGE: usize = 20;
const WIDTH: usize = 200;

/// Shows what commands ask for, until they end.
pub(crate) fn run(mut app: App, commands: impl BufRead, mut out: impl Write) -> Result<()> {
    app.set_height(PAGE);
    show_page(&mut app, &mut out)?;
    writeln!(out, "h: the commands")?;
    out.flush()?;
    for command in commands.lines() {
        let command = command?;
        let before = app.screen_name();
        match (command.chars().next(), command.trim()) {
            (None, _) => app.turn_page(true),
            (_, "h" | "?") => {
                for line in App::keys() {
                    writeln!(out, "{line}")?;
                }
                writeln!(
                    out,
                    "d: all that is known of the chosen line; an empty line: the next page; b: the page before; \
                     a blank: Enter"
                )?;
                out.flush()?;
                continue;
            }
            (_, "d") => {
                wait(&mut app);
                let (_, lines, chosen, details) = app.list(WIDTH, PAGE);
                for line in chosen.and_then(|at| lines.get(at)).into_iter().chain(&details) {
                    writeln!(out, "{}", line.trim_end())?;
                }
                out.flush()?;
                continue;
            }
            (_, "b") => app.turn_page(false),
            (Some(first @ ('/' | 'F' | 't')), _) => {
                // A filter and a time need all events to have their numbers.
                wait(&mut app);
                app.command(first, command[1..].trim());
            }
            (_, keys) => {
                wait(&mut app);
                let keys = if keys.is_empty() { " " } else { keys };
                keys.chars()
                    .for_each(|sign| app.press(if sign == ' ' { KeyPress::Enter } else { KeyPress::Char(sign) }));
            }
        }
        if app.is_ended() {
            return Ok(());
        }
        let is_page = command.is_empty() || command.trim() == "b" || before != app.screen_name();
        if is_page || command.starts_with(['F', '=', '<', '>', 's', '[', ']', 'T', 'g', 'G', 'v']) {
            show_page(&mut app, &mut out)?;
        } else {
            wait(&mut app);
            let (_, lines, chosen, _) = app.list(WIDTH, PAGE);
            writeln!(out, "{}", app.status())?;
            if let Some(line) = chosen.and_then(|at| lines.get(at)) {
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

fn show_page(app: &mut App, out: &mut impl Write) -> Result<()> {
    wait(app);
    let (header, lines, _, _) = app.list(WIDTH, PAGE);
    writeln!(out, "{}: {}", app.screen_name(), app.status())?;
    for line in std::iter::once(&header).chain(&lines) {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Waits until nothing is on its way.
fn wait(app: &mut App) {
    while {
        app.poll();
        app.is_busy()
    } {
        std::thread::sleep(Duration::from_millis(5));
    }
}
