//! Faults that are planted on one broker, one after the other, in one recording: where time is short.
//!
//! Only those can share that start the broker in no way of their own ([`Fault::shares`]) and ask for the same ground, or
//! for none.

use super::plan::{Fault, Ground};

/// Some faults and the ground beneath them.
pub(super) struct Group {
    pub(super) ground: Option<Ground>,
    pub(super) faults: Vec<Box<dyn Fault>>,
    shares: bool,
}

impl Group {
    fn of(fault: Box<dyn Fault>) -> Self {
        Self { ground: fault.ground(), shares: fault.shares(), faults: vec![fault] }
    }

    fn has_room_for(&self, fault: &dyn Fault) -> bool {
        let ground = fault.ground();
        let fits = ground.is_none() || self.ground.is_none() || ground == self.ground;
        self.shares && fault.shares() && fits
    }

    fn add(&mut self, fault: Box<dyn Fault>) {
        self.ground = self.ground.or(fault.ground());
        self.faults.push(fault);
    }
}

/// Each by itself.
pub(super) fn apart(faults: Vec<Box<dyn Fault>>) -> Vec<Group> {
    faults.into_iter().map(Group::of).collect()
}

/// As few groups as can be, in the order of their first.
pub(super) fn together(faults: Vec<Box<dyn Fault>>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for fault in faults {
        match groups.iter_mut().find(|group| group.has_room_for(fault.as_ref())) {
            Some(group) => group.add(fault),
            None => groups.push(Group::of(fault)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::all;

    fn names(groups: &[Group], of: &str) -> Vec<&'static str> {
        let group = groups.iter().find(|group| group.faults.iter().any(|fault| fault.name() == of)).unwrap();
        group.faults.iter().map(|fault| fault.name()).collect()
    }

    #[test]
    fn those_on_the_same_ground_or_on_any_share_a_broker() {
        let groups = together(all());
        let stall = names(&groups, "journal-stall");
        assert!(stall.contains(&"two-causes") && stall.contains(&"quota") && stall.contains(&"quiet"));
        assert!(!stall.contains(&"slow-device") && !stall.contains(&"gc-pause"));
        assert_eq!(names(&groups, "gc-pause"), ["gc-pause"]);
        assert_eq!(names(&groups, "slow-device"), ["slow-device", "dirty-throttling"]);
        let count: usize = groups.iter().map(|group| group.faults.len()).sum();
        assert_eq!(count, all().len());
    }

    #[test]
    fn apart_nobody_shares() {
        assert!(apart(all()).iter().all(|group| group.faults.len() == 1));
    }
}
