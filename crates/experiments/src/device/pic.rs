//! A pair of 8259 interrupt controllers as a PC has them: the second one's output is line 2 of the first.
//!
//! Source of the rules: Intel, "8259A Programmable Interrupt Controller", 1988, and for the two registers that
//! say which lines are level-triggered the PIIX data sheets ("ELCR"). Single mode and the
//! 8080's three-byte calls are not there: no PC has them. Two points follow the kernel's controller
//! (`arch/x86/kvm/i8259.c`) rather than the data sheet, so that guests meet the same in both:
//!
//! * an edge is kept until it is taken or ICW1 comes, even if its line falls again;
//! * the second controller tells the first one anew at each access, so a request withdrawn meanwhile makes
//!   a spurious interrupt.
//!
//! In two others the kernel leaves the data sheet, and this does not: its polled reads do not set a bit in
//! service and answer 0xff for none; its special mask mode has no effect.

pub const LINES: u8 = 16;
/// The line of the first controller that the second one is at.
const CASCADE: u8 = 2;
/// Line that a controller reports if a request went away: its lowest line.
const SPURIOUS: u8 = 7;
/// Lines that a PC lets be level-triggered: not timer, keyboard, cascade, RTC, nor FPU.
const MAY_BE_LEVEL: [u8; 2] = [0xf8, 0xde];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expects {
    /// None: a write of data is OCW1.
    #[default]
    Mask,
    Icw2,
    Icw3,
    Icw4,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Reads {
    #[default]
    Requests,
    InService,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a bit of a control word, and they are independent"
)]
struct Chip {
    /// IRR, ISR and IMR of the data sheet.
    requests: u8,
    in_service: u8,
    mask: u8,
    lines: u8,
    level_triggered: u8,
    base: u8,
    highest: u8,
    expects: Expects,
    wants_icw4: bool,
    reads: Reads,
    polled: bool,
    auto_eoi: bool,
    rotates_on_auto_eoi: bool,
    special_mask: bool,
    special_fully_nested: bool,
}

fn with(bits: u8, bit: u8, is_set: bool) -> u8 {
    if is_set { bits | bit } else { bits & !bit }
}

impl Chip {
    fn set(&mut self, line: u8, raised: bool) {
        let bit = 1 << line;
        let rises = raised && self.lines & bit == 0;
        self.lines = with(self.lines, bit, raised);
        if self.level_triggered & bit != 0 {
            self.requests = with(self.requests, bit, raised);
        } else if rises {
            self.requests |= bit;
        }
    }

    /// The first of some lines by priority, and how many come before it.
    fn first(&self, lines: u8) -> Option<(u8, u8)> {
        let by_priority = lines.rotate_right(self.highest.into());
        let rank = u8::try_from(by_priority.trailing_zeros()).ok()?;
        (rank < 8).then_some((rank, (rank + self.highest) & 7))
    }

    /// The line that interrupts: of those asked for and not masked the first, if nothing before it is in
    /// service. `cascades`: the other controller is at this one.
    fn interrupting(&self, cascades: bool) -> Option<u8> {
        let (rank, line) = self.first(self.requests & !self.mask)?;
        let mut serving = self.in_service;
        if self.special_mask {
            serving &= !self.mask;
        }
        if cascades && self.special_fully_nested {
            serving &= !(1 << CASCADE);
        }
        let busy = self
            .first(serving)
            .is_some_and(|(serving, _)| serving <= rank);
        (!busy).then_some(line)
    }

    /// Puts the line that interrupts into service.
    fn take(&mut self, cascades: bool) -> Option<u8> {
        let line = self.interrupting(cascades)?;
        let bit = 1 << line;
        self.in_service |= bit;
        if self.level_triggered & bit == 0 {
            self.requests &= !bit;
        }
        if self.auto_eoi {
            if self.rotates_on_auto_eoi {
                self.highest = (line + 1) & 7;
            }
            self.in_service &= !bit;
        }
        Some(line)
    }

    fn command(&mut self, value: u8) {
        if value & 0x10 != 0 {
            self.icw1(value);
        } else if value & 0x08 != 0 {
            self.ocw3(value);
        } else {
            self.ocw2(value);
        }
    }

    fn icw1(&mut self, value: u8) {
        self.wants_icw4 = value & 1 != 0;
        self.lines = 0;
        self.requests &= self.level_triggered;
        self.mask = 0;
        self.highest = 0;
        self.special_mask = false;
        self.reads = Reads::Requests;
        if !self.wants_icw4 {
            self.auto_eoi = false;
            self.special_fully_nested = false;
        }
        self.expects = Expects::Icw2;
    }

    fn ocw2(&mut self, value: u8) {
        let line = value & 7;
        let [rotate, specific, end] = [0x80, 0x40, 0x20].map(|bit| value & bit != 0);
        match (specific, end) {
            (false, false) => self.rotates_on_auto_eoi = rotate,
            (true, false) if rotate => self.highest = (line + 1) & 7,
            (true, false) => {}
            (true, true) => self.end(line, rotate),
            (false, true) => {
                let ends = if self.special_mask { !self.mask } else { 0xff };
                if let Some((_, line)) = self.first(self.in_service & ends) {
                    self.end(line, rotate);
                }
            }
        }
    }

    fn end(&mut self, line: u8, rotate: bool) {
        self.in_service &= !(1 << line);
        if rotate {
            self.highest = (line + 1) & 7;
        }
    }

    fn ocw3(&mut self, value: u8) {
        self.polled |= value & 0x04 != 0;
        match value & 0x03 {
            2 => self.reads = Reads::Requests,
            3 => self.reads = Reads::InService,
            _ => {}
        }
        if value & 0x40 != 0 {
            self.special_mask = value & 0x20 != 0;
        }
    }

    fn data(&mut self, value: u8) {
        self.expects = match self.expects {
            Expects::Mask => {
                self.mask = value;
                Expects::Mask
            }
            Expects::Icw2 => {
                self.base = value & 0xf8;
                Expects::Icw3
            }
            // Where the other controller is does not change.
            Expects::Icw3 if self.wants_icw4 => Expects::Icw4,
            Expects::Icw3 => Expects::Mask,
            Expects::Icw4 => {
                self.auto_eoi = value & 0x02 != 0;
                self.special_fully_nested = value & 0x10 != 0;
                Expects::Mask
            }
        };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PicPair {
    /// The first controller, and the second.
    chips: [Chip; 2],
    /// Lines that there are not, accesses of other widths and to other ports.
    pub refused: u64,
}

fn chip_of(port: u16) -> usize {
    usize::from(matches!(port, 0xa0 | 0xa1 | 0x4d1))
}

impl PicPair {
    pub fn set(&mut self, line: u8, raised: bool) {
        match self.chips.get_mut(usize::from(line / 8)) {
            Some(chip) => chip.set(line % 8, raised),
            None => self.refused += 1,
        }
        self.cascade();
    }

    /// A write of the guest: a byte to a port of the pair, all else is refused.
    pub fn write(&mut self, port: u16, bytes: &[u8]) {
        let &[value] = bytes else {
            self.refused += 1;
            return;
        };
        let at = chip_of(port);
        let chip = &mut self.chips[at];
        match port {
            0x20 | 0xa0 => chip.command(value),
            0x21 | 0xa1 => chip.data(value),
            0x4d0 | 0x4d1 => chip.level_triggered = value & MAY_BE_LEVEL[at],
            _ => self.refused += 1,
        }
        self.cascade();
    }

    pub fn read(&mut self, port: u16, bytes: &mut [u8]) {
        bytes.fill(0);
        let [value] = bytes else {
            self.refused += 1;
            return;
        };
        let at = chip_of(port);
        let chip = &mut self.chips[at];
        *value = match port {
            // A polled read takes the interrupt without the CPU: bit 7 says that there was one.
            0x20 | 0x21 | 0xa0 | 0xa1 if std::mem::take(&mut chip.polled) => {
                chip.take(at == 0).map_or(0, |line| 0x80 | line)
            }
            0x20 | 0xa0 => status(chip),
            0x21 | 0xa1 => chip.mask,
            0x4d0 | 0x4d1 => chip.level_triggered,
            _ => {
                self.refused += 1;
                0
            }
        };
        self.cascade();
    }

    pub fn interrupts(&self) -> bool {
        self.chips[0].interrupting(true).is_some()
    }

    /// The CPU takes the interrupt: its vector. A CPU that asks without an interrupt pending gets a spurious one.
    pub fn acknowledge(&mut self) -> u8 {
        let [first, second] = &mut self.chips;
        let vector = match first.take(true) {
            Some(CASCADE) => second.base | second.take(false).unwrap_or(SPURIOUS),
            line => first.base | line.unwrap_or(SPURIOUS),
        };
        self.cascade();
        vector
    }

    fn cascade(&mut self) {
        let [first, second] = &mut self.chips;
        if second.interrupting(false).is_some() {
            first.set(CASCADE, true);
            first.set(CASCADE, false);
        }
    }
}

fn status(chip: &Chip) -> u8 {
    match chip.reads {
        Reads::Requests => chip.requests,
        Reads::InService => chip.in_service,
    }
}

#[cfg(test)]
mod test;
