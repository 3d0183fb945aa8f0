//! A user-supplied population table, CSV or Parquet: one row per object; consecutive rows of a user form its
//! connection. An unknown column is an error.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::str::FromStr;

use bbrlab_core::{NANOS_PER_SEC, Rng};

use super::file::check_algorithms;
use super::{Class, Design, Path, User};
use crate::{Error, Result};
use bbrlab_sim::metrics::fnv1a;
use bbrlab_sim::scenario::arrivals::uniform;
use bbrlab_sim::scenario::{BitRate, BufferSize, FlowSpec, LossModel, TextError, TimeSpan, Volume, nearest};
use bbrlab_sim::setup::Object;

/// Columns of a table; the first three are required.
pub const COLUMNS: [&str; 11] =
    ["rate", "rtt", "size", "user", "class", "network", "start_s", "loss", "buffer", "pause", "rivals"];
/// Number of required columns.
const NEEDED: usize = 3;
/// First seed stream of users from tables.
const STREAM: u64 = 0x6364_6e01_0000_0000;
/// Maximum rows. Ours: a guard against a wrong file.
const ROWS_MAX: usize = 10_000_000;
/// Maximum lifetime of a connection. Ours: longer than a person waits.
const LIFE: TimeSpan = TimeSpan::secs(120);
/// Time for which rivals have been running when a user arrives. Ours: CUBIC has found its share by then on most paths.
const LEAD: TimeSpan = TimeSpan::secs(3);

/// A table of text cells, with the file position of each row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows: position and cells.
    pub rows: Vec<(String, Vec<String>)>,
}

/// Reads CSV with a header line.
pub fn csv(bytes: &[u8]) -> Result<Sheet> {
    let fault = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        Error::at(line)(match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                Error::CellCount { found: *len, wanted: *expected_len }
            }
            csv::ErrorKind::Utf8 { err, .. } => Error::NotText(err.field() + 1),
            _ => Error::Csv(error),
        })
    };
    if let Some(line) = crate::quotes::left_open(bytes) {
        return Err(Error::at(line)(Error::OpenQuote));
    }
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(bytes);
    let columns = reader.headers().map_err(fault)?.iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(fault)?;
        if rows.len() == ROWS_MAX {
            return Err(Error::at(1)(Error::TooManyRows { max: ROWS_MAX }));
        }
        let line = record.position().map_or(0, csv::Position::line);
        rows.push((line.to_string(), record.iter().map(str::to_owned).collect()));
    }
    Ok(Sheet { columns, rows })
}

/// Reads Parquet; numbers become text.
#[cfg(feature = "parquet")]
pub fn parquet(bytes: Vec<u8>) -> Result<Sheet> {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    let fault = |error: ::parquet::errors::ParquetError| Error::at(1)(error);
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(fault)?;
    let schema = reader.metadata().file_metadata().schema().clone();
    let columns = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let mut rows = Vec::new();
    for (nth, row) in reader.get_row_iter(None).map_err(fault)?.enumerate() {
        if nth == ROWS_MAX {
            return Err(Error::at(1)(Error::TooManyRows { max: ROWS_MAX }));
        }
        let cell = |(_, field): (&String, &Field)| match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            other => other.to_string(),
        };
        rows.push((format!("row {}", nth + 1), row.map_err(fault)?.get_column_iter().map(cell).collect()));
    }
    Ok(Sheet { columns, rows })
}

/// Builds the users of a sheet, and the design of the study.
pub fn population(sheet: &Sheet, algorithms: Vec<String>, seed: u64) -> Result<(Design, Vec<User>)> {
    check_algorithms(&algorithms)?;
    let columns = Columns::of(sheet)?;
    let mut classes: Vec<Class> = Vec::new();
    let mut users: Vec<User> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (nth, (place, cells)) in sheet.rows.iter().enumerate() {
        let row = Row { columns: &columns, place, cells };
        let name = match row.text("user") {
            "" => format!("row {}", nth + 1),
            name => name.to_owned(),
        };
        let object = Object { size: row.volume()?.0, pause: row.time("pause")?.unwrap_or(TimeSpan(0)).span() };
        let path = row.path()?;
        if let Some(&index) = known.get(&name) {
            let user = &mut users[index];
            if user.path != path {
                return Err(row.fault("user", Error::OtherPath(name)));
            }
            user.connections[0].push(object);
            continue;
        }
        let class = class(&mut classes, row.text("class"), row.text("network"));
        let arrival_s = row.seconds("start_s")?;
        let mut rng = Rng::derive(seed, STREAM ^ fnv1a(name.as_bytes()));
        let is_tested = uniform(&mut rng) <= 0.5;
        known.insert(name.clone(), users.len());
        let connections = vec![vec![object]];
        users.push(User { name, class, arrival_s, is_tested, path, connections, seed: rng.next_u64() });
    }
    if users.is_empty() {
        return Err(Error::at(1)(Error::NoRows));
    }
    describe(&mut classes, &users);
    let span_s = users.iter().map(|user| user.arrival_s).fold(0.0, f64::max).max(1.0);
    let (activation_s, bin_s) = (span_s / 2.0, span_s / 6.0);
    Ok((Design { title: String::new(), algorithms, span_s, activation_s, bin_s, classes }, users))
}

fn class(classes: &mut Vec<Class>, name: &str, network: &str) -> usize {
    let name = if name.is_empty() { "all" } else { name };
    let is = |class: &Class| class.name == name && class.network == network;
    classes.iter().position(is).unwrap_or_else(|| {
        classes.push(Class { name: name.to_owned(), network: network.to_owned(), ..Class::default() });
        classes.len() - 1
    })
}

/// Describes the contents of each class's table.
fn describe(classes: &mut [Class], users: &[User]) {
    for (index, class) in classes.iter_mut().enumerate() {
        let own: Vec<&User> = users.iter().filter(|user| user.class == index).collect();
        let objects: usize = own.iter().map(|user| user.connections[0].len()).sum();
        class.about = format!("{} users with {objects} objects, as the table says", own.len());
    }
}

/// Index of each column in the table.
struct Columns(BTreeMap<&'static str, usize>);

impl Columns {
    fn of(sheet: &Sheet) -> Result<Self> {
        let mut places = BTreeMap::new();
        for (at, name) in sheet.columns.iter().enumerate() {
            let Some(known) = COLUMNS.iter().find(|known| *known == name) else {
                let (near, known) = (nearest(name, COLUMNS), COLUMNS.join(", "));
                return Err(Error::at(1)(Error::UnknownColumn { name: name.clone(), near, known }));
            };
            if places.insert(*known, at).is_some() {
                return Err(Error::at(1)(Error::ColumnTwice(name.clone())));
            }
        }
        match COLUMNS[..NEEDED].iter().find(|needed| !places.contains_key(*needed)) {
            Some(missing) => Err(Error::at(1)(Error::NoColumn(missing))),
            None => Ok(Self(places)),
        }
    }
}

struct Row<'a> {
    columns: &'a Columns,
    place: &'a str,
    cells: &'a [String],
}

impl Row<'_> {
    fn text(&self, column: &str) -> &str {
        self.columns.0.get(column).and_then(|&at| self.cells.get(at)).map_or("", String::as_str)
    }

    fn fault(&self, column: &str, error: impl Into<Error>) -> Error {
        Error::at(format!("{}: column {column}", self.place))(error)
    }

    /// Parses a value with its own unit, or a plain number in `unit`; `None` for an empty cell.
    fn value<T: FromStr<Err = TextError>>(&self, column: &str, unit: &str) -> Result<Option<T>> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let whole = if is_plain { format!("{text}{unit}") } else { text.to_owned() };
        // A number written by a program may be longer than any that a person writes.
        let whole = if is_plain && unit == "B" { whole.replace(".0B", "B") } else { whole };
        whole.parse().map(Some).map_err(|error| self.fault(column, error))
    }

    fn time(&self, column: &str) -> Result<Option<TimeSpan>> {
        self.value(column, "s")
    }

    fn needed<T>(&self, column: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.fault(column, Error::EmptyCell))
    }

    fn volume(&self) -> Result<Volume> {
        let size = self.value("size", "B")?;
        self.needed("size", size)
    }

    fn seconds(&self, column: &str) -> Result<f64> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(0.0);
        }
        let seconds = text.parse().ok().filter(|value: &f64| (0.0..1e9).contains(value));
        seconds.ok_or_else(|| self.fault(column, Error::Seconds(text.to_owned())))
    }

    fn path(&self) -> Result<Path> {
        let rate: Option<BitRate> = self.value("rate", "bit")?;
        let rtt = self.time("rtt")?;
        let loss: LossModel = match self.text("loss") {
            "" => LossModel::None,
            text => text.parse().map_err(|error| self.fault("loss", error))?,
        };
        let rivals: Vec<FlowSpec> = match self.text("rivals") {
            "" => Vec::new(),
            text => text
                .split_whitespace()
                .map(|flow| flow.parse().map_err(|error| self.fault("rivals", error)))
                .collect::<Result<_, _>>()?,
        };
        let (rate, rtt) = (self.needed("rate", rate)?, self.needed("rtt", rtt)?);
        if rtt.0 < NANOS_PER_SEC / 1_000_000 {
            return Err(self.fault("rtt", Error::TooShort { found: rtt.to_string(), min: "1us" }));
        }
        Ok(Path {
            rate,
            rtt,
            loss,
            buffer: self.value("buffer", "B")?.unwrap_or(BufferSize::Bdp(1.0)),
            lead: if rivals.is_empty() { TimeSpan(0) } else { LEAD },
            rivals,
            options: String::new(),
            life: LIFE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Design, Vec<User>)> {
        population(&csv(text.as_bytes())?, vec!["bbr1".into(), "cubic".into()], 1)
    }

    #[test]
    fn rows_of_one_user_are_objects_of_its_connection() {
        let text = "user,class,start_s,rate,rtt,loss,buffer,size,pause\n\
                    a,home,0,20mbit,0.04,1%,0.5bdp,1MB,\n\
                    b,home,30,20000000,40ms,0,,500000,\n\
                    a,home,0,20mbit,0.04,1%,0.5bdp,2MB,1.5\n";
        let (design, users) = read(text).unwrap();
        assert_eq!((users.len(), design.classes.len(), design.span_s), (2, 1, 30.0));
        assert_eq!(users[0].connections[0].len(), 2);
        assert_eq!((users[1].path.rate, users[1].path.rtt), (BitRate(20_000_000), TimeSpan::millis(40)));
        assert_eq!(users[1].connections[0][0].size, 500_000);
    }

    #[test]
    fn a_slip_is_named_with_its_line_and_column() {
        for (text, what) in [
            ("rate,rtt,size\n1mbit,40ms,1MB\n1mbit,forty,1MB\n", "3: column rtt: \"forty\" is not a time"),
            ("rate,rtt\n1mbit,40ms\n", "1: no column \"size\""),
            ("rate,rtt,sise\n", "1: column \"sise\" is unknown (did you mean size?)"),
            ("rate,rtt,size\n1mbit,40ms\n", "2: it has 2 cells instead of 3"),
            ("rate,rtt,size\n1mbit,40ms,\n", "2: column size: it is empty"),
            ("rate,rtt,size\n", "1: it has no rows"),
            ("user,rate,rtt,size\na,1mbit,40ms,1MB\na,2mbit,40ms,1MB\n", "3: column user: \"a\" has another path"),
            ("rate,rtt,size,start_s\n1mbit,40ms,1MB,-5\n", "2: column start_s: \"-5\""),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(what), "{error}");
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn a_parquet_file_says_what_a_csv_file_says() {
        use bbrlab_report::export::parquet::{Values, Writer};
        let text = |texts: &[&str]| Values::Text(texts.iter().map(|t| Some((*t).to_owned())).collect());
        let columns = [
            ("user", text(&["a", "b"])),
            ("rate", Values::Whole(vec![Some(20_000_000), Some(5_000_000)])),
            ("rtt", Values::Float(vec![Some(0.04), Some(0.1)])),
            ("loss", Values::Float(vec![Some(0.01), None])),
            ("size", Values::Whole(vec![Some(1_000_000), Some(50_000)])),
        ];
        let fields: Vec<(&str, &Values)> = columns.iter().map(|(name, values)| (*name, values)).collect();
        let mut writer = Writer::new(Vec::new(), "paths", &fields).unwrap();
        writer.group(&columns.iter().map(|(_, values)| values).collect::<Vec<_>>()).unwrap();
        let sheet = parquet(writer.finish().unwrap()).unwrap();
        let (_, users) = population(&sheet, vec!["bbr1".into(), "cubic".into()], 1).unwrap();
        let same = read("user,rate,rtt,loss,size\na,20mbit,40ms,1%,1MB\nb,5mbit,100ms,,50kB\n").unwrap().1;
        assert_eq!(users, same);
        assert!(parquet(b"PAR1 no".to_vec()).unwrap_err().to_string().starts_with("1: it is not a readable Parquet"));
    }
}
