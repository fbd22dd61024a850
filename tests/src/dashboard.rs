//! A Grafana dashboard, as far as it queries Prometheus.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// The query of a panel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanelQuery {
    /// The panel's title.
    pub panel: String,
    /// Its description.
    pub description: String,
    /// The query, with Grafana's variables in it.
    pub query: String,
}

/// A dashboard.
#[derive(Debug)]
pub struct Dashboard {
    name: String,
    json: Value,
}

impl Dashboard {
    /// Reads one.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name: path.file_name().unwrap().to_string_lossy().into_owned(), json }
    }

    /// Its file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn panels(&self) -> impl Iterator<Item = &Value> {
        self.json["panels"].as_array().unwrap().iter()
    }

    /// Every query of every panel.
    ///
    /// # Panics
    /// If a panel that is not a row has no query.
    pub fn queries(&self) -> Vec<PanelQuery> {
        let panels = self.panels().filter(|panel| panel["type"] != "row");
        let of_panel = |panel: &Value| -> Vec<PanelQuery> {
            let title = panel["title"].as_str().unwrap();
            let targets = panel["targets"].as_array().unwrap_or_else(|| panic!("{title} asks nothing"));
            let query = |target: &Value| target["expr"].as_str().unwrap().to_owned();
            targets
                .iter()
                .map(|target| PanelQuery {
                    panel: title.to_owned(),
                    description: panel["description"].as_str().unwrap_or_default().to_owned(),
                    query: query(target),
                })
                .collect()
        };
        panels.flat_map(of_panel).collect()
    }

    /// The variables that Prometheus fills, with the metric and the label. Their queries are `label_values(METRIC,
    /// LABEL)`.
    ///
    /// # Panics
    /// If one is of another form.
    pub fn variables(&self) -> Vec<(String, String)> {
        let variables = self.json["templating"]["list"].as_array().unwrap().iter();
        let query_variables = variables.filter(|variable| variable["type"] == "query");
        query_variables
            .map(|variable| {
                let query = variable["query"].as_str().unwrap();
                let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
                let (metric, label) = inner.and_then(|inner| inner.rsplit_once(", ")).expect(query);
                (metric.to_owned(), label.to_owned())
            })
            .collect()
    }

    /// Checks that Grafana can lay it out: unique ids, a grid of 24 columns without overlaps; and that every variable
    /// used is declared.
    ///
    /// # Panics
    /// If it cannot.
    pub fn assert_well_formed(&self) {
        let ids: BTreeSet<i64> = self.panels().map(|panel| panel["id"].as_i64().unwrap()).collect();
        assert_eq!(ids.len(), self.panels().count(), "{}: ids", self.name);
        let mut taken = BTreeSet::new();
        for panel in self.panels() {
            let title = &panel["title"];
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
            assert!(x + w <= 24 && w > 0 && h > 0, "{}: {title} sticks out", self.name);
            let mut cells = (x..x + w).flat_map(|column| (y..y + h).map(move |row| (column, row)));
            assert!(cells.all(|cell| taken.insert(cell)), "{}: {title} lies on another", self.name);
            assert!(
                panel["type"] == "row" || panel["fieldConfig"]["defaults"]["unit"].is_string(),
                "{title}"
            );
        }
        let known = self.json["templating"]["list"].as_array().unwrap().iter();
        let known: BTreeSet<&str> = known.map(|variable| variable["name"].as_str().unwrap()).collect();
        for PanelQuery { panel, query, .. } in self.queries() {
            for used in variables_of(&query) {
                assert!(known.contains(used) || used == "__rate_interval", "{}: {panel}: ${used}", self.name);
            }
        }
    }
}

fn variables_of(query: &str) -> impl Iterator<Item = &str> {
    query.split('$').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// A query with values in place of its variables.
pub fn with(query: &str, variables: &[(&str, &str)]) -> String {
    let mut query = query.to_owned();
    for (name, value) in variables {
        query = query.replace(&format!("${name}"), value);
    }
    query
}
