//! Results of `haltwise prove` against their published form. They are in `prove/`: recorded on a host with two CPUs, with its name taken out.

use std::fs;

use super::home;
use super::schema::conforms;

#[test]
fn the_json_is_as_published() {
    for name in ["better", "worse", "same", "noisy", "bistable"] {
        let result = fs::read(home().join(format!("prove/{name}.json"))).unwrap();
        conforms("prove", &serde_json::from_slice(&result).unwrap());
    }
}
