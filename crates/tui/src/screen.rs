//! Lines on a terminal.

use std::io::Result;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};

use crate::app::{App, KeyPress, Look};

/// How long to wait for a key before looking whether something is new.
const WAIT: Duration = Duration::from_millis(100);

/// Draws all of it.
pub fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    let is_colored = app.settings().is_colored;
    let style = |look: Look| match (look, is_colored) {
        (Look::Plain, _) => Style::new(),
        (Look::Chosen, _) => Style::new().add_modifier(Modifier::REVERSED),
        (Look::Title, true) => Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD),
        (Look::Title, false) => Style::new().add_modifier(Modifier::BOLD),
        (Look::Header, true) => Style::new().fg(Color::Yellow),
        (Look::Header, false) => Style::new().add_modifier(Modifier::UNDERLINED),
        (Look::Dim, true) => Style::new().fg(Color::DarkGray),
        (Look::Dim, false) => Style::new(),
    };
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let lines = app.view(width, height).into_iter().map(|(line, look)| {
        // The whole line of the cursor is marked, not only its text.
        let line = if look == Look::Chosen { crate::text::left(&line, width) } else { line };
        Line::styled(line, style(look))
    });
    frame.render_widget(Text::from(lines.collect::<Vec<_>>()), area);
}

/// Shows it until the user ends it.
pub(crate) fn run(mut app: App) -> Result<()> {
    let mut terminal = ratatui::try_init()?;
    let ended = (|| {
        let mut is_new = true;
        while !app.is_ended() {
            is_new |= app.poll();
            if is_new {
                terminal.draw(|frame| draw(&mut app, frame))?;
            }
            is_new = false;
            if !event::poll(WAIT)? {
                continue;
            }
            // Keys that wait are taken together: a key that is held down must not leave a queue behind.
            loop {
                is_new = true;
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        let is_end = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                        if is_end {
                            return Ok(());
                        }
                        if let Some(key) = key_of(key.code) {
                            app.press(key);
                        }
                    }
                    _ => {}
                }
                if app.is_ended() || !event::poll(Duration::ZERO)? {
                    break;
                }
            }
        }
        Ok(())
    })();
    ratatui::restore();
    ended
}

fn key_of(code: KeyCode) -> Option<KeyPress> {
    Some(match code {
        KeyCode::Char(sign) => KeyPress::Char(sign),
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Escape,
        KeyCode::Backspace => KeyPress::Backspace,
        KeyCode::Tab => KeyPress::Tab,
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::Home,
        KeyCode::End => KeyPress::End,
        _ => return None,
    })
}
