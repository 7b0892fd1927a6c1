//! Specs that can be written, and specs that are refused.

use super::*;
use crate::kvm::Arch;

fn setting() -> Setting {
    Setting::upstream(Version::new(6, 12), Arch::X86, 30_000)
}

fn build(text: &str) -> Result<Box<dyn Policy>, SpecError> {
    text.parse::<Spec>()?.build(&setting())
}

#[test]
fn what_cannot_is_refused_with_the_way_it_is_written() {
    for case in REFUSED.lines() {
        let (text, message) = case.split_once(" => ").unwrap();
        let error = build(text).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

const REFUSED: &str = "\
kwm => there is no policy `kwm` (there are: off, fixed, kvm
 => there is no policy `` (there are: off
fix:3us => there is no policy `fix` (did you mean `fixed`?)
off:3us => policy `off` takes no `3us`: it takes no arguments
fixed => policy `fixed` needs a time: it is written fixed:TIME, or fixed:always
fixed:50 parsecs => policy `fixed`: `50 parsecs` has the unknown unit `parsecs`
fixed:max=5us => policy `fixed` needs a time
kvm:mux=5us => policy `kvm` takes no `mux`: it is written kvm:max=TIME
kvm:max=5us,max=6us => policy `kvm` is given `max` twice
kvm:max=-1 => `-1` is not a duration
kvm:max=5s => policy `kvm`: `max=5s` is not a time that KVM can hold
kvm:grow=-1 => policy `kvm`: `grow=-1` is not a whole number of 32 bits
kvm:grow=4294967296 => is not a whole number of 32 bits
kvm:kernel=six => policy `kvm`, `kernel`:
kvm:knobs=mine => `knobs=mine` is not `default`
off|kvm => there is no policy `off|kvm`";

#[test]
fn a_spec_is_printed_as_it_was_given() {
    let text = "kvm:max=200us,grow=2";
    let spec: Spec = text.parse().unwrap();
    assert_eq!((&*spec.to_string(), spec.name()), (text, "kvm"));
}

proptest::proptest! {
    #[test]
    fn any_text_is_refused_or_builds_what_prints_as_given(text in "[a-z-]{0,12}(:[a-z_=0-9,%.|us-]{0,40})?") {
        if let Ok(spec) = text.parse::<Spec>() {
            assert_eq!(spec.to_string(), text);
            if let Ok(mut policy) = spec.build(&setting()) {
                policy.window(None);
            }
        }
    }
}
