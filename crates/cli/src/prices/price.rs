//! Cost of an exit and of an IPI: given, or as calibrated. Nothing is assumed: the cost differs a hundredfold between
//! a CPU that delivers interrupts by itself and a host that is a VM.

use haltwise_core::replay::Cost;
use haltwise_core::replay::calibration::Prices;
use haltwise_core::units::Nanos;
use haltwise_document::figures;
use serde::Deserialize;

use crate::exit::{Exit, Failure};
use crate::number::nanos;
use crate::prices::Source;
use crate::prices::words;
use crate::time;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::Args)]
pub(crate) struct GivenPrice {
    /// CPU time of one HLT exit, which guest polling avoids [default: calibrated, else
    /// not counted]
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds, hide_short_help = true)]
    exit_cpu: Option<Nanos>,
    /// CPU time that an IPI costs the sending vCPU [default: calibrated in the guest,
    /// else one exit; 0 where the CPU delivers it]
    #[arg(long, value_name = "TIME", value_parser = time::nanoseconds, hide_short_help = true)]
    ipi_cpu: Option<Nanos>,
}

figures! {
    #[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
    pub(crate) struct Price {
        /// CPU time of one exit on HLT and the entry after it: given, or calibrated (an exit on CPUID: the least
        /// that one on HLT takes); `null` where it is not known, and it counts as 0. Nothing is assumed.
        pub(crate) exit_cpu_ns: Option<u64> = Nanos,
        /// Where that comes from: `given`, `calibrated`, or `joined` (an entry into HLT in the guest less its halt on the
        /// host, of two captures that were matched).
        pub(crate) exit_cpu_source: Option<Source> = Word,
        /// Cost to its sender of an IPI between vCPUs of one guest: given, or calibrated in the guest, else that of an
        /// exit.
        pub(crate) ipi_cpu_ns: Option<u64> = Nanos,
        /// Where that comes from.
        pub(crate) ipi_cpu_source: Option<Source> = Word,
    }
}

/// Refuses prices of exits where they decide nothing.
pub(crate) fn no_prices(price: GivenPrice) -> Result<(), Failure> {
    if price == GivenPrice::default() {
        return Ok(());
    }
    let error = anyhow::anyhow!(
        "--exit-cpu and --ipi-cpu are for a guest: under every setting of a host each halt exits"
    );
    Err(Failure::new(Exit::Usage, error))
}

impl Price {
    /// Given prices take precedence over calibrated prices.
    pub(crate) fn new(given: GivenPrice, calibrated: Prices) -> Self {
        let first = |given: Option<Nanos>, calibrated_ns: Option<u64>| {
            let given = given.map(|Nanos(ns)| (ns, Source::Given));
            given.or(calibrated_ns.map(|ns| (ns, Source::Calibrated)))
        };
        let exit = first(given.exit_cpu, calibrated.exit_cpu_ns);
        let ipi = first(given.ipi_cpu, calibrated.ipi_cpu_ns).or(exit);
        Self {
            exit_cpu_ns: exit.map(|(ns, _)| ns),
            exit_cpu_source: exit.map(|(_, source)| source),
            ipi_cpu_ns: ipi.map(|(ns, _)| ns),
            ipi_cpu_source: ipi.map(|(_, source)| source),
        }
    }

    /// With what two captures that were matched tell of an exit, where nothing better is known.
    #[must_use]
    pub(crate) fn or_joined(self, exit_ns: Option<u64>) -> Self {
        let Some(ns) = exit_ns.filter(|_| self.exit_cpu_ns.is_none()) else {
            return self;
        };
        let joined = Some(Source::Joined);
        Self {
            exit_cpu_ns: Some(ns),
            exit_cpu_source: joined,
            ipi_cpu_ns: self.ipi_cpu_ns.or(Some(ns)),
            ipi_cpu_source: self.ipi_cpu_source.or(joined),
        }
    }

    pub(crate) fn on(&self, cost: Cost) -> Cost {
        Cost {
            exit_cpu_ns: self.exit_cpu_ns.unwrap_or(0),
            ipi_cpu_ns: self.ipi_cpu_ns.unwrap_or(0),
            ..cost
        }
    }

    pub(crate) fn words(&self) -> String {
        let of = |ns: Option<u64>, source: Option<Source>| {
            ns.zip(source).map(|(ns, source)| {
                let source = words::source(source);
                format!("{} of CPU ({source})", nanos(ns))
            })
        };
        let exit = of(self.exit_cpu_ns, self.exit_cpu_source);
        let ipi = of(self.ipi_cpu_ns, self.ipi_cpu_source);
        match (exit, ipi) {
            (None, None) => "their cost is unknown and not included; measure it with `haltwise \
                             calibrate`, or give --exit-cpu TIME"
                .to_owned(),
            (Some(exit), None) => format!("one takes {exit}"),
            (None, Some(ipi)) => format!(
                "the cost of a HLT exit is unknown and not included; an IPI costs its sender {ipi}"
            ),
            (Some(exit), Some(ipi)) if exit == ipi => {
                format!("one takes {exit}, and an IPI costs its sender one")
            }
            (Some(exit), Some(ipi)) => {
                format!("one takes {exit}, and an IPI costs its sender {ipi}")
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Given for an exit and an IPI, calibrated for both; then the price of both.
    #[test]
    fn what_is_given_comes_first_and_an_ipi_is_an_exit_unless_given() {
        for (known, expected) in [
            ("- - - -", "- -"),
            ("- - 9 -", "9Calibrated 9Calibrated"),
            ("5 - 9 -", "5Given 5Given"),
            ("- 0 9 4", "9Calibrated 0Given"),
            ("- 3 - -", "- 3Given"),
            ("5 - 9 4", "5Given 4Calibrated"),
            ("- - - 4", "- 4Calibrated"),
        ] {
            let known: Vec<Option<u64>> = known.split(' ').map(|ns| ns.parse().ok()).collect();
            let [exit, ipi, exit_cpu_ns, ipi_cpu_ns] = known[..] else {
                panic!("{known:?}");
            };
            let given = GivenPrice {
                exit_cpu: exit.map(Nanos),
                ipi_cpu: ipi.map(Nanos),
            };
            let calibrated = Prices {
                exit_cpu_ns,
                ipi_cpu_ns,
            };
            let price = Price::new(given, calibrated);
            let of = |ns: Option<u64>, source: Option<Source>| match (ns, source) {
                (Some(ns), Some(source)) => format!("{ns}{source:?}"),
                (None, None) => "-".to_owned(),
                odd => panic!("{odd:?}"),
            };
            let exit = of(price.exit_cpu_ns, price.exit_cpu_source);
            let ipi = of(price.ipi_cpu_ns, price.ipi_cpu_source);
            assert_eq!(format!("{exit} {ipi}"), expected);
            assert_eq!(price.words().contains("unknown"), exit == "-");
        }
    }
}
