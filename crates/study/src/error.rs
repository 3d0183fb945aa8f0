//! Errors of populations, sweeps, measurements and choices: the place, the value found and the values accepted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::scenario::{ReadError, ScenarioError, TextError};
use bbrlab_stats::plural::counted;

/// An input that cannot be used, or a study that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error at a place: a key, a line, a class, a run.
    #[error("{place}: {source}")]
    At {
        /// The place.
        place: String,
        /// The error.
        source: Box<Self>,
    },
    /// A scenario cannot be resolved.
    #[error(transparent)]
    Sim(#[from] bbrlab_sim::Error),
    /// A key of a scenario is not valid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A text is not of its form.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A value of a file is not valid.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A table is not a scenario.
    #[error("{}", .0.message().lines().next().unwrap_or_default())]
    Table(#[source] toml::de::Error),
    /// A range with three dots.
    #[error("{text:?} has three dots; write two, as in {example}")]
    ThreeDots {
        /// The range.
        text: String,
        /// A valid range.
        example: &'static str,
    },
    /// A range with one end.
    #[error("{0:?} lacks an end; write LOW..HIGH, or one value")]
    NoEnd(String),
    /// A range whose first end is the larger.
    #[error("{0:?} runs backwards; write the smaller end first")]
    Backwards(String),
    /// A file that is no capture.
    #[error("neither pcap, pcapng nor qlog; name a capture of TCP, as `tcpdump -w` or `bbrlab run --pcap` writes it")]
    NotACapture,
    /// A capture without packets.
    #[error("it holds no packet; name a capture of TCP at its sender")]
    EmptyCapture,
    /// A capture that ends within its first packet.
    #[error("it is cut off or damaged before its first packet; capture it again")]
    CutBeforePackets,
    /// A capture that cannot be read.
    #[error("it cannot be read to its end; copy it to this machine first")]
    CaptureUnreadable,
    /// Packets without times.
    #[error("its {} no timestamps; name a capture with the time of each packet", has(*.0))]
    NoTimestamps(u64),
    /// A link layer that is not read.
    #[error("its link layer is not read; capture Ethernet, raw IP, loopback or Linux cooked packets")]
    LinkLayer,
    /// A capture without TCP.
    #[error("no TCP among its {}, {udp} of them UDP; name a capture of TCP, or the qlog of a QUIC connection", counted(*.packets, "packet"))]
    NoTcp {
        /// Packets.
        packets: u64,
        /// UDP among them.
        udp: u64,
    },
    /// A capture of too few bytes of each packet.
    #[error("{} cut within the headers; capture 128 bytes of each packet", are(*.0))]
    CutHeaders(u64),
    /// A capture of packets in an encapsulation.
    #[error("{} in an encapsulation that is not read; capture inside of it", are(*.0))]
    Tunnelled(u64),
    /// A capture of one direction.
    #[error("it holds one direction only, data without ACKs or ACKs without data; capture both")]
    OneDirection,
    /// A document that is too large.
    #[error("it is one document of more than {0} MiB; name a sequence, as `bbrlab get --qlog FILE.sqlog` writes it")]
    LargeDocument(u64),
    /// A qlog that is not JSON.
    #[error("it is not JSON: {0}")]
    QlogNotJson(#[source] serde_json::Error),
    /// JSON that is not qlog.
    #[error("it is JSON, but has no traces with events: not a qlog")]
    NotAQlog,
    /// A qlog without what a path is estimated from.
    #[error(
        "no packet_sent with recovery's metrics (latest_rtt, bytes_in_flight) in it; log at the sender of the data"
    )]
    NoMetrics,
    /// A capture without enough data.
    #[error("no connection has ten data packets and an ACK of them; capture a longer transfer")]
    NoData,
    /// A capture of a run with too many connections.
    #[error("it holds more than {0} connections; capture those of the run alone")]
    ManyConnections(usize),
    /// A capture of another run.
    #[error("it holds {}, and the scenario has {}; capture all of the run's, and no others", counted(*.found, "connection"), counted(*.wanted, "flow"))]
    OtherConnections {
        /// Connections.
        found: usize,
        /// Flows.
        wanted: usize,
    },
    /// A capture that ends before its run.
    #[error("it ends after {lasts_s:.1} s of {wanted_s:.1}; capture the whole run")]
    ShortCapture {
        /// Time from the first to the last packet.
        lasts_s: f64,
        /// Duration of the scenario.
        wanted_s: f64,
    },
    /// A capture on the wrong side.
    #[error("it was made at the receiver of the data; capture at its sender")]
    AtReceiver,
    /// A text that is no buffer size.
    #[error("{0:?} is not a buffer size; write multiples of the BDP or a drain time, as in 0.5bdp..4bdp or 50ms")]
    Buffer(String),
    /// A loss of all packets.
    #[error("{0:?} lets nothing through; write less than 100%")]
    LosesAll(String),
    /// A text that is no number of flows.
    #[error("{0:?} is not a number of flows; write one from 0 to 100")]
    FlowCount(String),
    /// A time that is too short.
    #[error("{found} is too short; write at least {min}")]
    TooShort {
        /// The time.
        found: String,
        /// Smallest time.
        min: &'static str,
    },
    /// A number that is no weight.
    #[error("{0} is not a weight; write a number above 0")]
    Weight(f64),
    /// No rival flows.
    #[error("there is none; write at least one, as in [\"cubic\", \"bbr1\"]")]
    NoRivals,
    /// A rival with options that it cannot have.
    #[error("{0:?} sets count, start, size or name; leave them out")]
    RivalOptions(String),
    /// A file without its tables.
    #[error("it has no [[{0}]]; write at least one")]
    NoTables(&'static str),
    /// A number out of range.
    #[error("{found} is out of range; write 1 to {max}")]
    OutOfRange {
        /// The number.
        found: u32,
        /// Largest number.
        max: u32,
    },
    /// A span or a bin of 0.
    #[error("span and bin: write at least 1ms")]
    NoSpan,
    /// A class without a name of its own.
    #[error("its name {0:?} is empty or taken; choose another name")]
    ClassName(String),
    /// Fewer than two algorithms.
    #[error("there is nothing to compare; name at least two; the last is the control")]
    NothingToCompare,
    /// A value that may appear once.
    #[error("{0:?} appears twice; write it once")]
    Twice(String),
    /// A flow with traffic that the study sets.
    #[error("options, rivals: size, objects and pause set what to send; leave it out")]
    Traffic,
    /// A distribution with parameters out of range.
    #[error(
        "out of range; write min below max in one unit, alpha 0.01 to 100, sigma 0 to 10, weights from 0 up, not all 0"
    )]
    Distribution,
    /// A value of a scenario's key that is not accepted.
    #[error("{0}")]
    Value(String),
    /// A candidate without another.
    #[error("there is nothing to compare with; name another algorithm, as in bbr1,bbr3")]
    OneAlgorithm,
    /// A path whose rate or RTT is unknown.
    #[error("give what is known, as in 20mbit..50mbit or 40ms, or a measurement")]
    PathUnknown,
    /// A class of paths that no rule of a policy can name.
    #[error("no rule can name it; give clients, ports, or a range of RTTs")]
    NoCondition,
    /// A measurement without a rate.
    #[error("{file}: {reason}")]
    NoRate {
        /// Name of the file.
        file: String,
        /// The reason, as the evidence has it.
        reason: String,
    },
    /// A number of users for a table.
    #[error("a table lists its own users; leave it out")]
    UsersOfATable,
    /// A quote without an end.
    #[error("a quote opens here and is never closed; close it")]
    OpenQuote,
    /// A row of CSV with another number of cells.
    #[error("it has {found} cells instead of {wanted}")]
    CellCount {
        /// Number of cells.
        found: u64,
        /// Number of columns.
        wanted: u64,
    },
    /// A cell of CSV that is not text.
    #[error("column {0}: it is not text")]
    NotText(usize),
    /// Another error of CSV.
    #[error("{:?}", .0.kind())]
    Csv(#[source] csv::Error),
    /// A table with too many rows.
    #[error("it has over {max} rows; split it")]
    TooManyRows {
        /// Largest number of rows.
        max: usize,
    },
    /// A file that is not Parquet.
    #[cfg(feature = "parquet")]
    #[error("it is not a readable Parquet file: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A user with two paths.
    #[error("{0:?} has another path above; each user has one path")]
    OtherPath(String),
    /// A table without rows.
    #[error("it has no rows; write one for each object")]
    NoRows,
    /// A column that tables do not have.
    #[error("column {name:?} is unknown{}; there are {known}", .near.map_or(String::new(), |near| format!(" (did you mean {near}?)")))]
    UnknownColumn {
        /// Its name.
        name: String,
        /// A similar name.
        near: Option<&'static str>,
        /// The names of columns.
        known: String,
    },
    /// A column that appears twice.
    #[error("column {0:?} appears twice; write it once")]
    ColumnTwice(String),
    /// A column that is required.
    #[error("no column {0:?}; a table has rate, rtt and size")]
    NoColumn(&'static str),
    /// An empty cell in a required column.
    #[error("it is empty; every row has one")]
    EmptyCell,
    /// A text that is no number of seconds.
    #[error("{0:?} is not a time; write seconds from 0 up, as in 12.5")]
    Seconds(String),
    /// No class of that name.
    #[error("no class {name:?}; there are {}", .known.join(", "))]
    UnknownClass {
        /// The name.
        name: String,
        /// Names of the classes.
        known: Vec<String>,
    },
    /// Two axes of one name.
    #[error("axis {index} has the name {name:?} of an earlier axis; choose another name")]
    AxisTaken {
        /// Index of the later axis, from 0.
        index: usize,
        /// The name.
        name: String,
    },
    /// A placeholder of no axis.
    #[error("{0:?} has a placeholder without an axis")]
    Placeholder(String),
    /// An axis without values.
    #[error("axis {0:?} has no values; write at least one")]
    NoValues(String),
    /// A value that is no point of an axis.
    #[error("{0} is not text, a number or a table")]
    AxisValue(toml::Value),
    /// A label with a reserved character.
    #[error("label {0:?} holds a comma or an equals sign; give a table with `label`")]
    Label(String),
    /// A table without a label.
    #[error("a value without `label`")]
    NoLabel,
    /// A position that is no number.
    #[error("x of {label:?} is {found}, not a number")]
    Position {
        /// Label of the point.
        label: String,
        /// The position.
        found: toml::Value,
    },
    /// An axis without an equals sign.
    #[error("{0:?} has no values; write NAME=VALUE,VALUE or NAME=LOW..HIGH:COUNT")]
    AxisForm(String),
    /// An axis without a name.
    #[error("{0:?} names no axis; write NAME=VALUE,VALUE or NAME=LOW..HIGH:COUNT")]
    AxisName(String),
    /// A range without a number of values.
    #[error("{0:?} lacks the number of values; write as in {0}:5")]
    NoCount(String),
    /// A number of values that is not accepted.
    #[error("{text:?}: {count:?} is not a number of values; write one from 2 to {max}")]
    Count {
        /// The range.
        text: String,
        /// The number found.
        count: String,
        /// Largest number.
        max: usize,
    },
    /// An end of a range that is no number.
    #[error("{0:?}: an end is not a number; write as in 1mbit..1gbit:7")]
    End(String),
    /// A range over two kinds of units.
    #[error("{text:?}: {low:?} and {high:?} are units of different kinds")]
    Units {
        /// The range.
        text: String,
        /// Unit of the lower end.
        low: String,
        /// Unit of the upper end.
        high: String,
    },
    /// A logarithmic range from or to 0.
    #[error("{text:?}: there is no ratio from or to 0; write {count}lin for even steps")]
    Zero {
        /// The range.
        text: String,
        /// Its number of values.
        count: usize,
    },
    /// A range that is too small for its number of values.
    #[error("{text:?}: its ends are too near each other for {count} values")]
    TooNear {
        /// The range.
        text: String,
        /// Its number of values.
        count: usize,
    },
    /// A negative number.
    #[error("{0} is negative")]
    Negative(i64),
    /// A value that is no whole number.
    #[error("{0} is not a whole number")]
    NotWhole(toml::Value),
    /// A number of seeds that is not accepted.
    #[error("repeat: write a number of seeds from 1 to 10000")]
    Repeat,
    /// An axis of seeds.
    #[error("axis {0:?}: each combination already runs with its seeds; write --repeat")]
    SeedAxis(String),
    /// A backend other than the simulator.
    #[error("on: a sweep runs in the simulator; leave it out, or use run")]
    SweepsSimulator,
    /// An axis that changes nothing.
    #[error("axis {0:?} is not a scenario key, and no text contains the placeholder {{{0}}} for it")]
    NoEffect(String),
    /// Too many combinations.
    #[error("the axes make over {max} runs; leave out some values")]
    TooManyRuns {
        /// Largest number of runs.
        max: usize,
    },
    /// A measurement without a rate or an RTT.
    #[error(
        "it holds no connection's rate or RTT; give what `ss -tin`, `iperf3 -J` or a CSV of TCP_INFO (columns \
         tcpi_min_rtt, tcpi_delivery_rate, tcpi_bytes_sent, tcpi_bytes_retrans) wrote"
    )]
    NoSamples,
    /// A text that is not JSON.
    #[error("line {}: it is not JSON", .0.line())]
    NotJson(#[source] serde_json::Error),
    /// A test that iperf3 reports as failed.
    #[error("the test failed: iperf3 says {0:?}")]
    Iperf3(String),
    /// A test of UDP.
    #[error("it is a test of UDP; run iperf3 without -u")]
    Udp,
    /// An empty measurement.
    #[error("it is empty")]
    Empty,
    /// A cell that is no number.
    #[error("{0:?} is not a number")]
    NotANumber(String),
    /// No objective of that name.
    #[error("there is no objective {name:?}; there are {known}")]
    UnknownObjective {
        /// The name.
        name: String,
        /// Names of the objectives.
        known: String,
    },
    /// No application of that name.
    #[error("there is no application {name:?}; there are {known}")]
    UnknownApplication {
        /// The name.
        name: String,
        /// Names of the applications.
        known: String,
    },
    /// No candidate delivers anything.
    #[error("nothing gets through: no candidate delivered a byte on any of these paths")]
    NothingDelivered,
    /// No parameters to search.
    #[error("name those of {cc} to tune: {}", .known.join(", "))]
    NameParameters {
        /// The algorithm.
        cc: String,
        /// Its parameters.
        known: Vec<&'static str>,
    },
    /// The algorithm has no such parameter.
    #[error("{cc} has no parameter {name:?}; see `bbrlab list parameters {cc}`")]
    UnknownParameter {
        /// The algorithm.
        cc: String,
        /// The name.
        name: String,
    },
    /// A search failed.
    #[error("search: {0}")]
    Search(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A search found nothing.
    #[error("search: {0}")]
    NothingFound(&'static str),
    /// No axis of that name.
    #[error("there is no axis {name:?}; there are {}", .known.join(", "))]
    UnknownAxis {
        /// The name.
        name: String,
        /// Names of the axes.
        known: Vec<String>,
    },
    /// An axis with one value.
    #[error("axis {0:?} has one value; there is nothing to choose")]
    OneValue(String),
    /// A decision tree cannot be grown.
    #[cfg(feature = "tree")]
    #[error("--tree: {0}")]
    Tree(#[source] linfa::Error),
    /// A file of networks names none.
    #[error("it names no network; write lines as 192.0.2.0/24 home")]
    NoNetwork,
    /// Several lines of a file are refused.
    #[error("line {line}: {source}; also refused: line {}", .others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Lines {
        /// The first.
        line: usize,
        /// Its error.
        source: Box<Self>,
        /// The others.
        others: Vec<usize>,
    },
    /// A network without a class.
    #[error("{0:?} has no class; write a network and a class, as in 192.0.2.0/24 home")]
    NoClass(String),
    /// A text that is no network.
    #[error("{0:?} is not a network; write 192.0.2.0/24 or 2001:db8::/32")]
    NotANetwork(String),
    /// A network narrower than the recorded addresses.
    #[error("{network} is narrower than the /{kept} to which the records truncate a client's address")]
    Narrow {
        /// The network.
        network: String,
        /// Bits recorded.
        kept: u8,
    },
    /// A network with two classes.
    #[error("{0} has another class above")]
    OtherClass(String),
    /// Too many classes.
    #[error("{class:?} is one class too many; write {max} or fewer")]
    TooManyClasses {
        /// The class.
        class: String,
        /// Largest number of classes.
        max: usize,
    },
    /// A table of records without a column.
    #[error("it has no column {0}; name a folder of bbrlab ab")]
    NoRecordColumn(String),
    /// A record with a value missing or out of range.
    #[error("a value is missing or out of range")]
    BadRecord,
    /// No test at all.
    #[error("no test; name the directories of one or more")]
    NoTests,
    /// Tests of several hosts that are not one experiment.
    #[error("{one} and {other} differ in {what}: they are not one experiment")]
    HostsDiffer {
        /// A host.
        one: String,
        /// Another.
        other: String,
        /// The difference.
        what: &'static str,
    },
    /// A host that is there twice.
    #[error("{0} is there twice; give each host its own name with `ab start --host`")]
    HostTwice(String),
    /// A test whose units of assignment a summary does not keep.
    #[error("the test assigns {0}, which a summary does not keep; copy the directory")]
    SummaryUnits(&'static str),
    /// A file that is no summary.
    #[error("it is no summary; name a directory of a test, or a file of `bbrlab ab summary` ({0})")]
    NoSummary(#[source] serde_json::Error),
    /// A summary of another version.
    #[error("it is a summary of version {0}; make it with this version of bbrlab")]
    SummarySchema(u32),
    /// A summary with classes other than those of the file.
    #[error("{}", summary_classes(.0))]
    SummaryClasses(String),
    /// A text that is no key.
    #[error("it is not a key; write 32 hexadecimal digits")]
    NotAKey,
    /// A number of shares other than that of the arms.
    #[error("{text:?} has {} for {arms} arms; write one for each", counted(*.found, "share"))]
    ShareCount {
        /// The shares.
        text: String,
        /// Number of shares.
        found: usize,
        /// Number of arms.
        arms: usize,
    },
    /// Shares that add up to more than all.
    #[error("{text:?} adds up to {percent} %; write 100 or less")]
    ShareSum {
        /// The shares.
        text: String,
        /// Their sum.
        percent: f64,
    },
    /// Shares of 0.
    #[error("{0:?} gives no arm a share")]
    NoShare(String),
    /// A share that leaves nothing for the others.
    #[error("{text:?}: {others} other arms would leave nothing for the control, or get nothing")]
    CanaryShare {
        /// The share.
        text: String,
        /// Number of arms beside the control.
        others: usize,
    },
    /// A text that is no share.
    #[error("{0:?} is not a share; write a percentage from 0 to 100 with at most two decimals, as in 2.5")]
    Share(String),
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Adapter for `map_err` that adds the place.
    /// Puts an error at a place.
    pub fn at<E: Into<Self>>(place: impl ToString) -> impl FnOnce(E) -> Self {
        move |error| Self::At { place: place.to_string(), source: Box::new(error.into()) }
    }
}

/// Message for a summary with other classes than the file of `--classes`.
fn summary_classes(classes: &str) -> String {
    if classes.is_empty() {
        return "a summary was made without --classes; make it again with them, or leave them out here".to_owned();
    }
    format!("a summary has the classes {classes}; pass --classes with the file that it was made with")
}

fn are(packets: u64) -> String {
    format!("{} {}", counted(packets, "packet"), if packets == 1 { "is" } else { "are" })
}

fn has(packets: u64) -> String {
    format!("{} {}", counted(packets, "packet"), if packets == 1 { "has" } else { "have" })
}
