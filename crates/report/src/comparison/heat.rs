//! A heat map in text: one row per configuration, one scale for all. Knows of the terminal only whether colours may be
//! used.

use compare::OverTime;
use model::Nanos;

/// Cells without colours, from the lowest level to the highest.
const GLYPHS: [char; 5] = ['·', '░', '▒', '▓', '█'];
/// Cells with colours, of the 256 that terminals share, from dark to bright.
/// After viridis, which colour-blind people can order too.
const COLOURS: [u8; 7] = [54, 60, 30, 35, 113, 184, 227];
/// A cell without requests.
const NOTHING: char = ' ';

/// The scale that all cells share: levels of equal ratio.
pub(super) struct Scale {
    lowest: f64,
    highest: f64,
    colour: bool,
}

impl Scale {
    /// A scale that covers every cell; `None` without cells.
    pub(super) fn of(over_time: &OverTime, colour: bool) -> Option<Self> {
        let (lowest, highest) = over_time.range()?;
        Some(Self { lowest: lowest.max(1) as f64, highest: highest.max(1) as f64, colour })
    }

    fn levels(&self) -> usize {
        let all = if self.colour { COLOURS.len() } else { GLYPHS.len() };
        if self.highest / self.lowest < 1.01 { 1 } else { all }
    }

    fn level(&self, value: u64) -> usize {
        let levels = self.levels();
        if levels == 1 {
            return 0;
        }
        let share = (value as f64 / self.lowest).ln() / (self.highest / self.lowest).ln();
        ((share * levels as f64) as usize).min(levels - 1)
    }

    /// One cell.
    pub(super) fn cell(&self, value: Option<u64>) -> String {
        value.map_or_else(|| NOTHING.to_string(), |value| self.mark(self.level(value)))
    }

    #[expect(clippy::indexing_slicing, reason = "a level is less than the number of levels")]
    fn mark(&self, level: usize) -> String {
        if self.colour {
            format!("\x1b[38;5;{}m█\x1b[0m", COLOURS[level])
        } else {
            GLYPHS[level].to_string()
        }
    }

    /// Every level with its lower bound: `· 2.1 ms`.
    pub(super) fn legend(&self) -> Vec<String> {
        let levels = self.levels();
        let lower_bound = |level: usize| {
            let share = level as f64 / levels as f64;
            Nanos((self.lowest * (self.highest / self.lowest).powf(share)).round() as i64)
        };
        (0..levels).map(|level| format!("{} {}", self.mark(level), lower_bound(level))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Scale;
    use compare::OverTime;
    use model::Nanos;

    #[test]
    fn heat_map_cells_share_one_scale() {
        let rows =
            vec![vec![Some(1_000_000), None, Some(9_900_000)], vec![Some(100_000_000), Some(1_000_000)]];
        let over_time = OverTime { bucket: Nanos(1), rows };
        let scale = Scale::of(&over_time, false).unwrap();
        let row: String = over_time.rows[0].iter().map(|&cell| scale.cell(cell)).collect();
        assert_eq!(row, "· ▒");
        assert_eq!(scale.cell(Some(100_000_000)), "█");
        assert_eq!(scale.legend().join(", "), "· 1.0 ms, ░ 2.5 ms, ▒ 6.3 ms, ▓ 16 ms, █ 40 ms");
        let flat = OverTime { bucket: Nanos(1), rows: vec![vec![Some(5)]] };
        assert_eq!(Scale::of(&flat, false).unwrap().legend(), ["· 5 ns"]);
        assert!(Scale::of(&flat, true).unwrap().cell(Some(5)).contains("\x1b[38;5;54m"));
        assert!(Scale::of(&OverTime { bucket: Nanos(1), rows: vec![vec![None]] }, false).is_none());
    }
}
