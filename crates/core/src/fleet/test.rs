//! Laws of a fleet's sums and of what is chosen by them.

use std::sync::Arc;

use super::answer::{Plan, PlanKind, VmsSeen, answer, choose};
use super::cell::IN_FORCE;
use super::choose::{Choice, Chosen, Pair, Takes, best, interval};
use super::gather::{Asked, ENOUGH_HOSTS, Level, Refused, RowOf};
use super::vms::VmSums;
use super::*;
use crate::costs::grid::Shape;
use crate::costs::table::{Host, Row, rows};
use crate::costs::test::seeded::{Which, table};
use crate::costs::{Half, Kind};
use crate::replay::Sums;
use crate::tune::advice::Verdict;
use crate::workload::SplitMix64;

fn of(host: u64, day: u64) -> Vec<Row> {
    let (host, vms) = table(Which {
        seed: 7,
        host,
        day,
        vms: 6,
    });
    rows(&Arc::new(host), vms).collect()
}

fn asked(by: &[By]) -> Asked {
    Asked {
        by: by.to_vec(),
        weight_milli: 1_000,
    }
}

fn of_row(row: &Row) -> RowOf<'_> {
    let knobs = row.knobs.as_ref();
    (row.kind, knobs, row.half, &row.figures.sums)
}

fn part(asked: &Asked, rows: &[Row]) -> Part {
    let mut part = Part::new(asked);
    for row in rows {
        part.add(&row.host, &row.vm, [of_row(row)]);
    }
    part
}

/// The first days of so many hosts.
fn hosts(many: u64) -> Vec<Vec<Row>> {
    (0..many).map(|host| of(host, 0)).collect()
}

fn fleet(asked: &Asked, tables: &[Vec<Row>]) -> Fleet {
    let mut fleet = Fleet::new(asked.clone());
    for rows in tables {
        fleet.add(part(asked, rows)).unwrap();
    }
    fleet
}

/// Rows of the same VMs on hosts that were changed so.
fn on(mut rows: Vec<Row>, change: impl Fn(&mut Host)) -> Vec<Row> {
    for row in &mut rows {
        change(Arc::make_mut(&mut row.host));
    }
    rows
}

fn plan(answer: &Answer, kind: PlanKind) -> &Plan {
    answer.plans.iter().find(|plan| plan.kind == kind).unwrap()
}

fn vm_sums(asked: &Asked, level: Level, chosen: &Chosen, rows: &[Row]) -> VmSums {
    let mut sums = VmSums::new(asked, level, chosen);
    for row in rows {
        sums.add_rows(&row.host, &row.vm, [of_row(row)]);
    }
    sums
}

/// All that is said of tables that come in this order, in one text.
fn said(asked: &Asked, tables: &[Vec<Row>]) -> (Answer, String) {
    let fleet = fleet(asked, tables);
    let chosen = choose(&fleet).unwrap();
    let mut vms = VmSums::new(asked, fleet.level(), &chosen);
    let mut seen = VmsSeen::default();
    for rows in tables {
        let more = vm_sums(asked, fleet.level(), &chosen, rows);
        let complete = vms.add(more, |host, captures| captures == fleet.captures_of(host));
        for vm in complete {
            seen.see(vm);
        }
    }
    assert_eq!(vms.finish().len(), 0);
    let answer = answer(&fleet, &chosen, seen).unwrap();
    let text = format!("{:?} {:?} {answer:?}", fleet.counts(), fleet.total());
    (answer, text)
}

fn shuffled(mut tables: Vec<Vec<Row>>, seed: u64) -> Vec<Vec<Row>> {
    let mut draw = SplitMix64(seed);
    for at in (1..tables.len()).rev() {
        tables.swap(at, usize::try_from(draw.below(at as u64 + 1)).unwrap());
    }
    tables
}

/// Tables added up in any order, and in any parts, say the same to the last digit.
#[test]
fn the_order_of_tables_changes_nothing() {
    let asked = asked(&[By::Kernel, By::Class]);
    for (hosts, days) in [(3, 3), (ENOUGH_HOSTS as u64 + 2, 1)] {
        let tables: Vec<Vec<Row>> = (0..hosts)
            .flat_map(|host| (0..days).map(move |day| of(host, day)))
            .collect();
        let (_, first) = said(&asked, &tables);
        for seed in 0..3 {
            let (_, other) = said(&asked, &shuffled(tables.clone(), seed));
            assert!(first == other, "{hosts} hosts, seed {seed}");
        }
        let joined = [tables.concat()];
        assert!(said(&asked, &joined).1 == first, "all in one file");
    }
}

/// The sums of a fleet are those of its rows, added up by hand.
#[test]
fn sums_are_those_of_the_rows() {
    let asked = asked(&[]);
    let tables = hosts(4);
    let fleet = fleet(&asked, &tables);
    let total = fleet.total();
    for (place, knobs) in fleet.places.settings() {
        for half in Half::ALL {
            let rows = tables.iter().flatten();
            let rows = rows.filter(|row| row.half == half && row.knobs.as_ref() == Some(knobs));
            let mut wanted = [0_u64; 3];
            let mut milli = 0_u128;
            for row in rows.filter(|row| row.kind == Kind::Grid) {
                let sums = row.figures.sums;
                let cpu_ns = sums.poll_ns + sums.blocks * row.host.switch_cpu_ns;
                let each = [sums.halts, cpu_ns, sums.latency_ns];
                wanted.iter_mut().zip(each).for_each(|(sum, of)| *sum += of);
                let weight = if row.vm.goal.is_some() { 10_000 } else { 1_000 };
                milli += u128::from(cpu_ns) * 1_000 + u128::from(sums.latency_ns) * weight;
            }
            let found = match half {
                Half::Fit => total.fit(place),
                Half::Validate => total.judged(place),
            };
            assert_eq!([found.halts, found.cpu_ns, found.latency_ns], wanted);
            assert_eq!(found.milli, milli, "{knobs:?}");
        }
    }
    let (place, _) = best(&total, &fleet.places).unwrap();
    let all = fleet.places.settings();
    let most = all.map(|(at, _)| total.fit(at).milli * 102 / 100).min();
    assert!(Some(total.fit(place).milli) <= most);
}

/// More freedom costs no more on the half on which settings are chosen: one setting, one for each cohort, the bound.
#[test]
fn cohorts_cost_no_more_than_one_setting_where_they_are_chosen() {
    let asked = asked(&[By::Class]);
    let tables = hosts(10);
    let fleet = fleet(&asked, &tables);
    assert_eq!(fleet.level(), Level::Host);
    let chosen = choose(&fleet).unwrap();
    let cohorts = fleet.cohorts();
    let by_cohort: u128 = (cohorts.iter())
        .map(|(cohort, cell)| cell.fit(chosen.cohorts[cohort].best).milli)
        .sum();
    assert!(by_cohort <= fleet.total().fit(chosen.one).milli);
    let (answer, _) = said(&asked, &tables);
    let plan = |kind| plan(&answer, kind);
    let [in_force, cohorts] = [PlanKind::InForce, PlanKind::Cohorts].map(plan);
    assert!(in_force.gain.value.abs() < 1e-12);
    assert!(cohorts.gain.value > 0.02, "{cohorts:?}");
    assert!(plan(PlanKind::Bound).sums.milli <= cohorts.sums.milli);
    assert!(answer.cohorts.iter().any(|of| of.verdict.changes()));
    let vms: u64 = answer.cohorts.iter().map(|of| of.vms).sum();
    assert_eq!((answer.seen.vms, vms), (60, 60));
    assert!(plan(PlanKind::Ceilings).gain.value >= cohorts.gain.value - 0.01);
}

#[test]
fn a_capture_that_is_there_twice_is_refused() {
    let asked = asked(&[]);
    let mut fleet = Fleet::new(asked.clone());
    let rows = of(1, 0);
    fleet.add(part(&asked, &rows)).unwrap();
    let before = fleet.total();
    let within = on(rows.clone(), |host| {
        host.start_unix_ns += 1_000;
        host.end_unix_ns -= 1_000;
    });
    for twice in [&rows, &within] {
        let refused = fleet.add(part(&asked, twice)).unwrap_err();
        assert!(matches!(refused, Refused::Overlaps { host } if host == "host-00001"));
    }
    // In one file with another one, too, and where one is of twice the time, in whatever order, whatever day it names.
    let later = on(rows.clone(), |host| {
        host.start_unix_ns += 1_000;
        host.date = Some("2020-01-01".to_owned());
    });
    for one in [of(3, 0), within, later] {
        fleet
            .add(part(&asked, &[one.clone(), rows.clone()].concat()))
            .unwrap_err();
        let mut alone = Fleet::new(asked.clone());
        let is_twice = one[0].host.name == rows[0].host.name;
        let added = alone.add(part(&asked, &[rows.clone(), one].concat()));
        assert_eq!(added.is_err(), is_twice);
        assert_eq!(alone.counts() == [0; 3], is_twice);
    }
    assert_eq!(fleet.total(), before, "nothing of it is counted");
    fleet
        .add(part(&asked, &[of(1, 1), of(2, 0)].concat()))
        .unwrap();
    assert_eq!(fleet.counts(), [2, 2, 3]);
}

/// A row that is there twice, wherever, refuses its file; two VMs of one name do not.
#[test]
fn a_file_with_a_row_twice_is_refused() {
    let asked = asked(&[]);
    let rows = of(1, 0);
    for (at, to) in [(0, 1), (17, 400), (rows.len() - 1, 0)] {
        let mut rows = rows.clone();
        rows.insert(to, rows[at].clone());
        let mut fleet = Fleet::new(asked.clone());
        let refused = fleet.add(part(&asked, &rows));
        let is_twice = matches!(refused, Err(Refused::Twice { host }) if host == "host-00001");
        assert!(is_twice, "row {at}");
        assert_eq!(fleet.counts(), [0; 3]);
    }
    let first = Arc::clone(&rows[0].vm);
    let mut alike = rows.clone();
    for row in &mut alike {
        row.vm = Arc::clone(&first);
    }
    fleet(&asked, &[alike]);
    // A VM that did not halt has the same sums under all settings and in each of its lives.
    let mut idle = [rows.clone(), rows].concat();
    for row in &mut idle {
        row.figures.sums = Sums::default();
    }
    fleet(&asked, &[idle]);
}

#[test]
fn a_file_of_another_grid_alone_is_refused() {
    let asked = asked(&[]);
    let mut other = Part::new(&asked);
    other.unknown = 3;
    let mut fleet = Fleet::new(asked);
    let refused = fleet.add(other);
    assert!(matches!(refused, Err(Refused::OtherGrid { rows: 3 })));
    assert_eq!((fleet.counts(), fleet.unknown), ([0; 3], 0));
}

/// Where the cohort's setting has windows of one length, ceilings of VMs do not make those of another length; on kernels whose
/// growth a ceiling does not cap, they make none.
#[test]
fn a_vm_gets_a_ceiling_only_where_that_makes_the_setting() {
    let asked = asked(&[]);
    let tables = hosts(10);
    let fleet = fleet(&asked, &tables);
    let with_ceilings = |shape: Shape, kernel: Option<&str>| {
        let place = fleet.places.place(&shape.with(100_000)).unwrap();
        let choice = Choice {
            best: place,
            gain: interval(Vec::new(), Pair::gain),
            takes: Takes::Own,
            place,
        };
        let cohorts = [(Cohort::default(), choice)].into();
        let chosen = Chosen {
            one: place,
            cohorts,
        };
        let rows = on(tables.concat(), |host| {
            if let Some(kernel) = kernel {
                kernel.clone_into(&mut host.kernel);
            }
        });
        let vms = vm_sums(&asked, fleet.level(), &chosen, &rows).finish();
        vms.iter()
            .filter_map(|vm| vm.ceiling_ns)
            .collect::<Vec<_>>()
    };
    let halving = with_ceilings(Shape::Halving, None);
    let fixed = with_ceilings(Shape::Fixed, None);
    let toggle = with_ceilings(Shape::Toggle, None);
    assert!(halving.iter().any(|ns| *ns > 100_000), "{halving:?}");
    assert!(fixed.iter().all(|ns| *ns == 0), "{fixed:?}");
    assert!(toggle.iter().any(|ns| *ns > 0) && toggle.iter().all(|ns| *ns < 100_000));
    for kernel in ["5.10", "not a kernel"] {
        assert!(with_ceilings(Shape::Halving, Some(kernel)).is_empty());
    }
}

#[test]
fn too_few_units_give_no_recommendation() {
    let (answer, _) = said(&asked(&[]), &[of(1, 0), of(2, 0)]);
    assert_eq!(answer.verdict, Verdict::TooShort);
    let one = plan(&answer, PlanKind::One);
    assert!(one.gain.value > 0.02, "{one:?}");
    assert!(answer.plans.iter().all(|plan| !plan.gain.is_known()));
    // Where nothing is to be set, ceilings of VMs are those in force.
    let [cohorts, ceilings] =
        [PlanKind::Cohorts, PlanKind::Ceilings].map(|kind| plan(&answer, kind));
    assert_eq!(ceilings.sums.milli, cohorts.sums.milli);
    assert_eq!(answer.seen.with_ceiling, 0);
}

/// By `host` each cohort is a single unit, of which nothing is certain: what holds for the whole is taken, and not what is in force.
#[test]
fn a_cohort_that_is_too_small_takes_the_setting_of_the_whole() {
    let (answer, _) = said(&asked(&[By::Host]), &hosts(10));
    assert_eq!(answer.verdict, Verdict::Change);
    let mut small = (answer.cohorts.iter()).filter(|of| of.verdict == Verdict::TooShort);
    assert!(small.clone().count() > 5 && small.all(|of| of.takes == Takes::One));
}

/// A cohort whose VMs did not halt in the second half of a capture has not been evaluated.
#[test]
fn a_cohort_without_halts_to_judge_has_no_best_setting() {
    let mut tables = hosts(10);
    tables[0].retain(|row| row.half == Half::Fit);
    let (answer, _) = said(&asked(&[By::Host]), &tables);
    let silent = (answer.cohorts.iter()).find(|of| of.in_force.halts == 0);
    assert_eq!(silent.unwrap().verdict, Verdict::TooShort);
}

/// A plan with more freedom costs no more than the one setting, also on the half on which the plan was not chosen.
#[test]
fn no_plan_is_worse_than_a_simpler_one() {
    for (by, many) in [(By::Kernel, 9), (By::Vmm, 12), (By::Class, 16)] {
        let (answer, _) = said(&asked(&[by]), &hosts(many));
        let milli = |kind| plan(&answer, kind).sums.milli;
        let cohorts = milli(PlanKind::Cohorts);
        assert!(milli(PlanKind::Ceilings) <= cohorts);
        assert!(answer.verdict != Verdict::Change || cohorts <= milli(PlanKind::One));
    }
}

/// The costs of VMs add up to the cost of the fleet, also where the cohort of a VM changes from one day to the next.
#[test]
fn a_vm_is_counted_in_each_cohort_it_was_in() {
    let asked = asked(&[By::Kernel]);
    let upgraded = on(of(1, 1), |host| "6.99.0".clone_into(&mut host.kernel));
    let tables = [of(1, 0), upgraded, of(2, 0)];
    let fleet = fleet(&asked, &tables);
    let chosen = choose(&fleet).unwrap();
    // Both ways in which sums come together: in one file, and file by file.
    let joined = vm_sums(&asked, fleet.level(), &chosen, &tables.concat());
    let mut apart = VmSums::new(&asked, fleet.level(), &chosen);
    for rows in &tables {
        let more = vm_sums(&asked, fleet.level(), &chosen, rows);
        assert!(apart.add(more, |_, _| false).is_empty());
    }
    let wanted = fleet.total().judged(IN_FORCE).milli;
    for sums in [joined, apart] {
        let found: u128 = sums.finish().iter().map(|vm| vm.in_force.milli).sum();
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_setting_of_which_a_row_is_missing_is_not_chosen() {
    let asked = asked(&[]);
    let mut tables = hosts(3);
    let chosen = |tables: &[Vec<Row>]| {
        let fleet = fleet(&asked, tables);
        let (_, knobs) = best(&fleet.total(), &fleet.places).unwrap();
        knobs
    };
    let least = chosen(&tables);
    let is_of = |row: &Row| row.kind == Kind::Grid && row.knobs == Some(least);
    let missing = tables[0].iter().position(is_of).unwrap();
    tables[0].remove(missing);
    assert_ne!(chosen(&tables), least);
}

#[test]
fn times_beyond_64_bits_saturate() {
    let asked = asked(&[]);
    let for_ever = |rows| {
        on(rows, |host| {
            host.name = "host".to_owned() + &host.name[host.name.len() - 2..];
            (host.start_unix_ns, host.end_unix_ns) = (0, u64::MAX);
        })
    };
    let tables = hosts(ENOUGH_HOSTS as u64 + 1).into_iter().map(for_ever);
    let fleet = fleet(&asked, &tables.collect::<Vec<_>>());
    assert!(fleet.units().values().all(|of| of.span_ns == u64::MAX));
}
