//! `haltwise fleet`: costs tables of many hosts, and what they say together.

mod add;
mod show;

use clap::Subcommand;

use crate::exit::Outcome;

#[derive(Debug, Subcommand)]
#[command(about = "Recommend settings for many hosts from costs tables")]
#[command(
    override_usage = "haltwise fleet add CAPTURE --lake DIR\n       haltwise fleet show LAKE..."
)]
pub(crate) enum Fleet {
    Add(Box<add::Arguments>),
    Show(Box<show::Arguments>),
}

impl Fleet {
    pub(crate) fn run(&self) -> Outcome {
        match self {
            Self::Add(arguments) => add::run(arguments),
            Self::Show(arguments) => show::run(arguments),
        }
    }
}
