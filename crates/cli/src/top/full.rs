//! The full screen: keys and steps in, drawings out, until the user quits.

use std::time::{Duration, Instant};

use anyhow::Context;

use super::draw;
use super::keys::{self, Action};
use super::live::Live;
use super::model::Model;
use super::tty::{Tty, lost};
use crate::collect::interrupt::Interrupt;
use crate::exit::{Exit, Outcome};
use crate::time::nanos;

/// Between two looks at the clock while a capture is played.
const FRAME: Duration = Duration::from_millis(40);
/// The longest wait: signals and a hang-up are seen after it.
const LOOK: Duration = Duration::from_millis(200);

/// Runs until `q` or a signal. The terminal is as it was before when this returns.
pub(crate) fn run(mut model: Model, mut live: Option<Live>, interrupt: &Interrupt) -> Outcome {
    let colourless = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
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
        if stale {
            let drawn = tty.screen.draw(|frame| {
                draw::draw(&model, frame);
                if colourless {
                    draw::without_colours(frame.buffer_mut());
                }
            });
            drawn.context("draw").map_err(lost)?;
        }
        let mut event = tty.next(wait(&model, live.as_ref()))?;
        stale = event.is_some();
        while let Some(now) = event {
            let page = draw::page(tty.screen.get_frame().area().height);
            for key in now.as_key_press_event().into_iter().flat_map(keys::presses) {
                match model.press(key, page) {
                    Some(Action::Redraw) => tty.clear()?,
                    Some(Action::Suspend) => tty.suspend()?,
                    Some(Action::Quit) => return Ok(Exit::Done),
                    _ => {}
                }
            }
            event = tty.next(Duration::ZERO)?;
        }
    }
    Ok(Exit::Done)
}

fn wait(model: &Model, live: Option<&Live>) -> Duration {
    let collector = live.map_or(LOOK, Live::rest);
    let frame = if model.playing { FRAME } else { LOOK };
    collector.min(frame)
}
