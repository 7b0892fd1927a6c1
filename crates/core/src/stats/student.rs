//! Student's t: how likely a value is by chance.
//!
//! With `t = sqrt(freedom) * tan(x)` the density becomes `cos(x)^(freedom - 1)` between -90 and 90
//! degrees, up to a factor. Both the tail and the whole are then integrals of a smooth function over a
//! short range (Simpson's rule), and the factor falls out.

use std::f64::consts::FRAC_PI_2;

/// Pieces of Simpson's rule; even. Good to six digits up to a thousand degrees of freedom.
const PIECES: u32 = 256;

const STEPS: u32 = 60;

/// The probability of a value at least as far from 0 as `t`, on either side.
///
/// `freedom` is degrees of freedom, at least 1 (less is taken as 1).
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    let freedom = freedom.max(1.0);
    let from = (t.abs() / freedom.sqrt()).atan();
    (integral(from, freedom) / integral(0.0, freedom)).clamp(0.0, 1.0)
}

/// The `t` that is passed, on either side, with probability `p`: 0.05 for the 95 % interval.
///
/// The tail is convex in `x`, so Newton's steps from 0 approach its root from below and never pass it.
pub fn quantile(p: f64, freedom: f64) -> f64 {
    let freedom = freedom.max(1.0);
    let whole = integral(0.0, freedom);
    let mut x = 0.0_f64;
    for _ in 0..STEPS {
        let excess = integral(x, freedom) - p * whole;
        let step = excess / density(x, freedom);
        if step.is_nan() || step <= x * f64::EPSILON {
            break;
        }
        x += step;
    }
    freedom.sqrt() * x.tan()
}

/// The integral of `cos(x)^(freedom - 1)` from `from` to 90 degrees.
fn integral(from: f64, freedom: f64) -> f64 {
    let step = (FRAC_PI_2 - from) / f64::from(PIECES);
    let at = |n: u32| density(from + step * f64::from(n), freedom);
    let inner: f64 = (1..PIECES)
        .map(|n| if n % 2 == 1 { 4.0 } else { 2.0 } * at(n))
        .sum();
    (at(0) + inner + at(PIECES)) * step / 3.0
}

fn density(x: f64, freedom: f64) -> f64 {
    x.cos().max(0.0).powf(freedom - 1.0)
}
