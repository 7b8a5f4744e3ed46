//! The settings of the file and of the environment, each with its source, checked one by one: a problem names the
//! position in the file or the variable, and never contains a value, since any may be a password.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    Config,
    environment::{self, Environment, Other, read_secret},
    file::{ConfigFile, Position},
    flags,
    keys::{self, Found, Kind},
    variables::{self, Target},
};

/// The path of a key, with names in place of `*`.
pub(crate) type KeyPath = Vec<String>;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The configuration file.
    File(Position),
    Variable(String),
}

/// A value, and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) value: toml::Value,
    pub(crate) source: Source,
    kind: Kind,
    /// If the value is the path of a file: that file.
    in_file: Option<PathBuf>,
}

/// The settings of the file and of the environment.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// The configuration file, if there is one.
    pub(crate) file: Option<PathBuf>,
    pub(crate) values: BTreeMap<KeyPath, Setting>,
    /// Tables that are present, even if they are empty.
    tables: Vec<KeyPath>,
    /// What is wrong.
    pub(crate) problems: Vec<String>,
    /// What is probably a mistake.
    pub(crate) warnings: Vec<String>,
}

impl Settings {
    /// Reads the file at `path`, or `punctual.toml` if it exists, and the variables, which take precedence.
    pub(crate) fn load(path: Option<&Path>, environment: &Environment) -> Self {
        let mut settings = Self::default();
        settings.read_file(path);
        settings.overlay(environment);
        settings.read_secrets();
        settings.check_types();
        settings.check_schedules();
        settings
    }

    /// The folder of the file.
    pub(crate) fn folder(&self) -> PathBuf {
        self.file.as_ref().and_then(|path| path.parent()).map(Path::to_owned).unwrap_or_default()
    }

    /// All settings as one table.
    pub(crate) fn table(&self) -> toml::Table {
        let mut table = toml::Table::new();
        for path in &self.tables {
            descend(&mut table, path);
        }
        for (path, setting) in &self.values {
            insert(&mut table, path, setting.value.clone());
        }
        table
    }

    fn read_file(&mut self, path: Option<&Path>) {
        let found = path.unwrap_or(Path::new("punctual.toml"));
        if path.is_none() && !found.exists() {
            return;
        }
        self.file = Some(found.to_owned());
        let text = match fs::read_to_string(found) {
            Ok(text) => text,
            Err(error) => {
                return self.problems.push(format!("cannot read the configuration {}: {error}", found.display()));
            }
        };
        match ConfigFile::parse(&text) {
            Ok(file) => self.add_table(&file, &file.table, &mut Vec::new()),
            Err(problem) => self.problems.push(format!("in the configuration {}, {problem}", found.display())),
        }
    }

    /// Adds the keys of a table of the file.
    fn add_table(&mut self, file: &ConfigFile, table: &toml::Table, path: &mut KeyPath) {
        for (name, value) in table {
            path.push(name.clone());
            let setting = |kind, in_file| {
                let source = Source::File(file.value_at(path));
                Setting { value: value.clone(), source, kind, in_file }
            };
            match (keys::find(path), value) {
                (Found::Key(key), _) => {
                    let setting = setting(key.kind, None);
                    self.add(path.clone(), setting);
                }
                (Found::FileOf(key), toml::Value::String(secret)) => {
                    let setting = setting(key.kind, Some(self.folder().join(secret)));
                    let mut path = path.clone();
                    cut_file(&mut path);
                    self.add(path, setting);
                }
                (Found::FileOf(_), _) => self.in_file(file.value_at(path), path, "expected the path of a file"),
                (Found::Table, toml::Value::Table(inner)) => {
                    self.tables.push(path.clone());
                    self.add_table(file, inner, path);
                }
                (Found::Table, _) => self.in_file(file.value_at(path), path, "expected a section or a table"),
                (Found::Unknown, _) => self.in_file(file.key_at(path), path, &unknown(path)),
            }
            path.pop();
        }
    }

    /// Adds a key of the file, which may be there twice: itself, and as the file that contains it.
    fn add(&mut self, path: KeyPath, setting: Setting) {
        if let Some(other) = self.values.insert(path.clone(), setting)
            && let Source::File(at) = other.source
        {
            let both = environment::both(&path.join("."), &format!("{}_file", path.join(".")));
            self.in_file(at, &path, &both);
        }
    }

    fn in_file(&mut self, at: Position, path: &[String], problem: &str) {
        self.problems.push(in_file(self.file.as_deref(), at, path, problem));
    }

    /// Adds the keys that variables set.
    fn overlay(&mut self, environment: &Environment) {
        let flags = flags::variables();
        let mut targets = Vec::new();
        for (name, text) in environment.iter() {
            match variables::target(name, |path| self.names(path)) {
                Ok(Some(target)) => targets.push((target, name, text)),
                Ok(None) => {
                    if let Other::Unknown { nearest } = environment::other(name, text, &flags) {
                        let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
                        self.warnings.push(format!("unknown variable {name}{hint}"));
                    }
                }
                Err(problem) => self.problems.push(format!("{name}: {problem}")),
            }
        }
        // Tables before their keys, and the variables of flags last.
        targets.sort_by_key(|(target, ..)| (matches!(target, Target::OfFlag(..)), target.path().len()));
        let mut set_by = BTreeMap::new();
        for (target, name, text) in targets {
            self.apply(target, name, text, &mut set_by);
        }
    }

    fn apply<'e>(&mut self, target: Target, name: &'e str, text: &str, set_by: &mut BTreeMap<KeyPath, &'e str>) {
        let earlier =
            if matches!(target, Target::Table(_)) { None } else { set_by.insert(target.path().to_vec(), name) };
        let source = Source::Variable(name.to_owned());
        let of_flag = matches!(target, Target::OfFlag(..));
        match (earlier, of_flag) {
            (Some(earlier), true) if !earlier.ends_with("_FILE") => {
                self.warnings.push(format!("{earlier} has no effect, because {name} is set"));
            }
            (Some(earlier), _) => {
                self.values.remove(target.path());
                return self.problems.push(environment::both(earlier, name));
            }
            (None, _) => {}
        }
        let (path, setting) = match target {
            Target::Value(path, key) => {
                (path, Setting { value: variables::value(key.kind, text), source, kind: key.kind, in_file: None })
            }
            Target::OfFlag(path, key) => {
                let value = variables::value_of_flag(key.kind, text);
                (path, Setting { value, source, kind: key.kind, in_file: None })
            }
            Target::FileOf(path, key) => {
                let (value, in_file) = (toml::Value::String(String::new()), Some(PathBuf::from(text)));
                (path, Setting { value, source, kind: key.kind, in_file })
            }
            Target::Table(path) => return self.apply_table(path, name, text),
        };
        self.values.insert(path, setting);
    }

    /// Sets the keys of an inline table.
    fn apply_table(&mut self, mut path: KeyPath, name: &str, text: &str) {
        match text.trim().parse::<toml::Value>() {
            Ok(toml::Value::Table(table)) => self.add_inline(&table, &mut path, name),
            _ => self.problems.push(format!("{name}: expected an inline table, such as {{ key = \"value\" }}")),
        }
    }

    fn add_inline(&mut self, table: &toml::Table, path: &mut KeyPath, name: &str) {
        self.tables.push(path.clone());
        for (key, value) in table {
            path.push(key.clone());
            match (keys::find(path), value) {
                (Found::Key(key), value) => {
                    let source = Source::Variable(name.to_owned());
                    let setting = Setting { value: value.clone(), source, kind: key.kind, in_file: None };
                    self.values.insert(path.clone(), setting);
                }
                (Found::FileOf(key), toml::Value::String(secret)) => {
                    let (source, in_file) = (Source::Variable(name.to_owned()), Some(PathBuf::from(secret)));
                    let mut path = path.clone();
                    cut_file(&mut path);
                    self.values.insert(path, Setting { value: value.clone(), source, kind: key.kind, in_file });
                }
                (Found::Table, toml::Value::Table(inner)) => self.add_inline(inner, path, name),
                (Found::Table, _) => self.problems.push(format!("{name}: {}: expected a table", path.join("."))),
                _ => self.problems.push(format!("{name}: {}", unknown(path))),
            }
            path.pop();
        }
    }

    /// The names that the file uses in a table.
    fn names(&self, path: &[String]) -> Vec<String> {
        let mut names: Vec<_> = (self.values.keys().chain(&self.tables))
            .filter(|key| key.starts_with(path))
            .filter_map(|key| key.get(path.len()).cloned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Reads the secrets that are in files.
    fn read_secrets(&mut self) {
        let mut problems = Vec::new();
        self.values.retain(|path, setting| {
            let Some(file) = &setting.in_file else { return true };
            match read_secret(file) {
                Ok(secret) => setting.value = variables::value(setting.kind, &secret),
                Err(problem) => {
                    problems.push(located(self.file.as_deref(), &setting.source, path, &problem));
                    return false;
                }
            }
            true
        });
        self.problems.append(&mut problems);
    }

    /// Drops values that the configuration does not accept.
    fn check_types(&mut self) {
        let mut problems = Vec::new();
        self.values.retain(|path, setting| {
            let accepted = is_accepted(path, &setting.value);
            if !accepted {
                let expected = format!("expected {}", setting.kind.expected());
                problems.push(located(self.file.as_deref(), &setting.source, path, &expected));
            }
            accepted
        });
        self.problems.append(&mut problems);
    }

    /// Drops schedules without a cron expression or a job.
    fn check_schedules(&mut self) {
        let schedules = vec!["schedules".to_owned()];
        for name in self.names(&schedules) {
            let table = [schedules.clone(), vec![name.clone()]].concat();
            let key = |key: &str| [table.clone(), vec![key.to_owned()]].concat();
            let Some(missing) = ["cron", "job"].into_iter().find(|name| !self.values.contains_key(&key(name))) else {
                continue;
            };
            // A value that was dropped has been reported.
            if !self.problems.iter().any(|problem| problem.contains(&format!("schedules.{name}.{missing}"))) {
                self.problems.push(format!("[schedules.{name}] of the configuration: key `{missing}` is missing"));
            }
            self.values.retain(|path, _| !path.starts_with(&table));
            self.tables.retain(|path| !path.starts_with(&table));
        }
    }
}

/// The keys of a table, or the nearest ones to an unknown key.
fn unknown(path: &[String]) -> String {
    let Some((name, table)) = path.split_last() else { return "unknown key".to_owned() };
    let known = keys::in_table(table);
    let known_names = known.iter().map(|name| (*name).to_owned());
    match keys::nearest(name, known_names) {
        Some(nearest) => format!("unknown key `{name}`; did you mean `{nearest}`?"),
        None => format!("unknown key `{name}`; expected one of {}", known.join(", ")),
    }
}

/// A problem with its place: a position in the file, or a variable.
fn located(file: Option<&Path>, source: &Source, path: &[String], problem: &str) -> String {
    match source {
        Source::File(at) => in_file(file, *at, path, problem),
        Source::Variable(name) => format!("{name}: {problem}"),
    }
}

fn in_file(file: Option<&Path>, at: Position, path: &[String], problem: &str) -> String {
    let file = file.unwrap_or(Path::new("punctual.toml")).display();
    format!("in the configuration {file}, {at}, key {}: {problem}", path.join("."))
}

/// Removes `_file` from the end of a path.
fn cut_file(path: &mut KeyPath) {
    if let Some(last) = path.last_mut()
        && let Some(key) = last.strip_suffix("_file")
    {
        *last = key.to_owned();
    }
}

/// Whether the configuration accepts a value.
fn is_accepted(path: &[String], value: &toml::Value) -> bool {
    let mut table = toml::Table::new();
    // A schedule alone needs both.
    if let [schedules, name, _] = path
        && schedules == "schedules"
    {
        for required in ["cron", "job"] {
            let path = [schedules.clone(), name.clone(), required.to_owned()];
            insert(&mut table, &path, toml::Value::String("x".to_owned()));
        }
    }
    insert(&mut table, path, value.clone());
    Config::deserialize(toml::Value::Table(table)).is_ok()
}

/// The table at a path, which is created if it is missing; `None` if something else is there.
fn descend<'t>(table: &'t mut toml::Table, path: &[String]) -> Option<&'t mut toml::Table> {
    path.iter().try_fold(table, |table, name| {
        table.entry(name.clone()).or_insert_with(|| toml::Value::Table(toml::Table::new())).as_table_mut()
    })
}

pub(super) fn insert(table: &mut toml::Table, path: &[String], value: toml::Value) {
    if let Some((key, tables)) = path.split_last()
        && let Some(table) = descend(table, tables)
    {
        table.insert(key.clone(), value);
    }
}
