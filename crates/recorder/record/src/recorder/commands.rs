//! Commands that come by the socket, executed by the thread that moves packets.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::known::RegisteredSite;
use super::{ProcessState, discarded, finish, folder, rotate};
use crate::consumer::Consumer;
use crate::control::{Command, ListedEvent, Reply};
use crate::local::{process, signals};
use crate::rules::{self, EventCondition, Level};
use crate::trigger::{self, Cause, MAX_TRIGGERS, Trigger};

/// Does something with the recording of a consumer, as long as it is the one of the process.
fn of_consumer<R>(consumer: &Arc<Consumer>, work: impl FnOnce(&mut ProcessState) -> Option<R>) -> Option<R> {
    let of_its = |state: &mut ProcessState| {
        let running = state.running.as_ref()?.consumer.as_ref()?;
        if Arc::ptr_eq(&running.consumer, consumer) { work(state) } else { None }
    };
    process::locked(of_its).flatten()
}

/// How far back the snapshot of a trigger goes, if that is still there. `None` when it is for the consumer of another folder.
pub(crate) fn snapshot_before(consumer: &Arc<Consumer>, number: u32) -> Option<Option<Duration>> {
    let of_trigger = |state: &mut ProcessState| {
        let triggers = state.running.as_ref()?.options.rules.triggers();
        Some(usize::try_from(number).ok().and_then(|at| Some(triggers.get(at)?.before)))
    };
    of_consumer(consumer, of_trigger)
}

/// Takes all triggers away: there are enough snapshots.
pub(crate) fn end_triggers(consumer: &Arc<Consumer>) {
    of_consumer(consumer, |state| {
        state.running.as_mut()?.options.rules.clear_triggers();
        trigger::watch(&[]);
        state.sites.iter().for_each(RegisteredSite::recheck);
        Some(())
    });
}

/// Executes commands for the recording of this consumer.
pub(crate) fn execute(consumer: &Arc<Consumer>, commands: Vec<Command>) -> Result<Reply, String> {
    let ended = || "recording has ended".to_string();
    let generation = of_consumer(consumer, |state| Some(state.generation)).ok_or_else(ended)?;
    let folder = folder(generation).map_err(|error| error.to_string())?;
    let mut reply = Reply { pid: std::process::id(), folder, discarded: discarded(generation), ..Reply::default() };
    for command in commands {
        let done = process::locked(|state| state.execute(generation, &command, &mut reply));
        done.flatten().ok_or_else(ended)??;
        // These take the lock by themselves.
        let finished = match command {
            Command::Rotate(path) => Some(rotate(generation, path)),
            Command::Stop => Some(finish(generation)),
            _ => None,
        };
        if let Some(summary) = finished.transpose().map_err(|error| error.to_string())? {
            reply.finished = Some(summary.discarded);
        }
    }
    Ok(reply)
}

impl ProcessState {
    /// Executes what needs the state alone. `None` when the recording has ended.
    fn execute(&mut self, generation: u64, command: &Command, reply: &mut Reply) -> Option<Result<(), String>> {
        self.running_of(generation)?;
        let done = match command {
            Command::List => {
                reply.events = self.list();
                Ok(())
            }
            Command::Enable(globs) => {
                let options = &mut self.running.as_mut()?.options;
                options.filter = rules::extended(&options.filter, globs);
                Ok(())
            }
            Command::Filter(condition) => {
                reply.notes.extend(self.note_about(condition));
                let is_set = self.running.as_mut()?.options.rules.set_condition(condition.clone());
                if is_set {
                    Ok(())
                } else {
                    Err("there are too many filters; set one for `*` in their place".to_string())
                }
            }
            Command::Contexts { events, contexts } => match contexts.try_counters() {
                Ok(notes) => {
                    reply.notes.extend(notes);
                    let is_set = self.running.as_mut()?.options.rules.set_contexts(events.clone(), *contexts);
                    is_set.then_some(()).ok_or_else(|| "there are too many lists of contexts".to_string())
                }
                Err(why) => Err(why),
            },
            Command::Trigger(trigger) => self.add_trigger(trigger),
            Command::NoTriggers => {
                self.running.as_mut()?.options.rules.clear_triggers();
                trigger::watch(&[]);
                Ok(())
            }
            Command::Rotate(_) | Command::Stop => return Some(Ok(())),
        };
        self.sites.iter().for_each(RegisteredSite::recheck);
        Some(done)
    }

    fn add_trigger(&mut self, trigger: &Trigger) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if let Cause::Signal(signal) = trigger.cause
            && !signals::can_be_watched(signal)
        {
            return Err(format!("signal {signal} cannot be handled by a program"));
        }
        if !running.options.rules.add_trigger(trigger.clone()) {
            return Err(format!("there are {MAX_TRIGGERS} triggers already"));
        }
        trigger::watch(running.options.rules.triggers());
        Ok(())
    }

    /// The events that the program has met, each once.
    fn list(&self) -> Vec<ListedEvent> {
        let Some(running) = &self.running else { return Vec::new() };
        let mut seen = HashSet::new();
        let mut events = Vec::new();
        for RegisteredSite { site, classes, .. } in &self.sites {
            let (name, level) = (site.full_name(), site.level());
            if !seen.insert((name.clone(), level, site.fields(), *classes)) {
                continue;
            }
            let is_on = rules::is_allowed(&running.options.filter, &name, level);
            let condition = running.options.rules.condition(&name, level).map(|rule| rule.source.clone());
            let level = level.map_or("", Level::name);
            let mut event = ListedEvent::new(name, level, site.fields(), classes);
            (event.is_on, event.condition) = (is_on, condition.unwrap_or_default());
            events.push(event);
        }
        events.sort_by(|a, b| (&a.name, &a.fields).cmp(&(&b.name, &b.fields)));
        events
    }

    /// A remark about a condition whose fields no known event has: they may have been written wrong.
    fn note_about(&self, rule: &EventCondition) -> Option<String> {
        let wanted = rule.condition.fields();
        let mut named = self.sites.iter().filter(|known| {
            let site = known.site;
            rules::is_allowed(&rule.events, &site.full_name(), site.level())
        });
        let mut known = named.clone().flat_map(|known| known.site.fields().iter().copied()).collect::<HashSet<_>>();
        known.retain(|field| wanted.contains(field));
        let missing = wanted.into_iter().find(|field| !known.contains(field))?;
        named.next()?;
        Some(format!("no event that the program has met so far and that the filter is for has the field `{missing}`"))
    }
}
