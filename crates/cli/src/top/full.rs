//! The full screen: keys in, steps in, cells out, until the user has seen enough.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::draw::{self, theme::Theme};
use super::keys::Action;
use super::live::Live;
use super::model::Model;
use super::tty::{Tty, lost};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Failure, Outcome};
use crate::time::nanos;

/// Between two looks at the clock while a capture is played.
const FRAME: Duration = Duration::from_millis(40);
/// At the latest then, it is looked whether a signal came.
const LOOK: Duration = Duration::from_millis(500);

/// Runs until `q` or a signal. The terminal is as it was before when this returns.
pub(crate) fn run(mut model: Model, mut live: Option<Live>, interrupt: &Interrupt) -> Outcome {
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let theme = Theme::new(colours);
    let mut tty = Tty::take()?;
    let mut stale = true;
    let mut last = Instant::now();
    while interrupt.came().is_none() {
        if let Some(live) = &mut live
            && let Some(step) = live.turn()?
        {
            model.timeline.push(step);
            stale = true;
        }
        let passed = last.elapsed();
        last = Instant::now();
        stale |= model.play(nanos(passed));
        stale |= tty.was_resized();
        if stale {
            show(&model, theme, &mut tty)?;
            stale = false;
        }
        let keys = tty.keys(wait(&model, live.as_ref()))?;
        let size = tty
            .screen
            .size()
            .context("ask for the size")
            .map_err(lost)?;
        for key in keys {
            stale = true;
            match model.press(key, draw::page(size.height)) {
                Some(Action::Redraw) => tty.redraw()?,
                Some(Action::Suspend) => tty.suspend()?,
                Some(Action::Quit) => return Ok(Exit::Done),
                _ => {}
            }
        }
    }
    Ok(Exit::Done)
}

fn wait(model: &Model, live: Option<&Live>) -> Duration {
    let collector = live.map_or(LOOK, Live::rest);
    let frame = if model.playing { FRAME } else { LOOK };
    collector.min(frame).min(LOOK)
}

fn show(model: &Model, theme: Theme, tty: &mut Tty) -> Result<(), Failure> {
    let drawn = tty.screen.draw(|frame| {
        let area = frame.area();
        draw::draw(model, theme, area, frame.buffer_mut());
    });
    drawn.context("draw").map_err(lost)?;
    Ok(())
}
