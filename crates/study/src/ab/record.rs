//! Connection records: the BPF program's binary form and a row of a table.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::State;

use super::{Client, Experiment};

/// Bytes of `struct record` in `bpf/cc/ab.bpf.c`.
pub const BYTES: usize = 216;
/// Bytes of a record in schema 1, which lacks the states.
const BYTES_1: usize = 160;
/// Minimum bytes of a record in any schema.
pub const BYTES_LEAST: usize = BYTES_1;

/// Number of BBR's states; the kernel's program numbers them in this order.
pub const STATES: usize = 7;

/// Names of BBR's states.
pub fn states() -> impl Iterator<Item = &'static str> {
    State::ALL.iter().take(STATES).map(|state| state.name())
}

/// Bytes of a record in this test.
pub const fn bytes_of(test: &Experiment) -> usize {
    if test.schema == 1 { BYTES_1 } else { BYTES }
}

const PASSIVE: u8 = 1;
const REFUSED: u8 = 2;
const APP_LIMITED: u8 = 4;
const OVERRIDDEN: u8 = 8;
const OPEN: u8 = 16;
const STATES_KNOWN: u8 = 32;

/// One connection, at its close or while still open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Socket cookie: unique until the machine reboots.
    pub id: u64,
    /// Index of its arm.
    pub arm: u8,
    pub bucket: u16,
    /// Index of the split under which the connection was assigned.
    pub epoch: u32,
    /// Sequence number of the record within its connection.
    pub nth: u32,
    /// Still open.
    pub is_open: bool,
    /// Opened by the peer.
    pub is_passive: bool,
    /// The kernel refused the arm's congestion control.
    pub is_refused: bool,
    /// The application chose another congestion control afterwards.
    pub is_overridden: bool,
    /// Time of establishment, nanoseconds since 1970.
    pub begun_unix_ns: u64,
    /// Time from establishment to this record.
    pub lasted_us: u64,
    /// The client's address, truncated.
    pub client: Client,
    /// Service port: local if the peer opened the connection, remote otherwise.
    pub port: u16,
    pub cgroup: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    /// Time during which data was waiting to be sent or acknowledged.
    pub busy_us: u64,
    /// Part of the busy time that was limited by the receiver's window.
    pub rwnd_limited_us: u64,
    /// Part of the busy time that was limited by the send buffer.
    pub sndbuf_limited_us: u64,
    pub data_segs_out: u64,
    pub retrans_segs: u64,
    pub delivered: u64,
    pub delivered_ce: u64,
    pub lost: u64,
    pub min_rtt_us: u64,
    pub srtt_us: u64,
    pub cwnd: u64,
    pub mss: u64,
    pub pacing_bps: u64,
    /// The kernel's newest sample.
    pub delivery_rate_bps: u64,
    /// The newest sample was limited by the application.
    pub is_app_limited: bool,
    /// Time in each of BBR's states, for an algorithm that counts it: ours.
    pub state_us: Option<[u64; STATES]>,
}

impl Row {
    /// Parses a record; `None` if the bytes are not a record of this version.
    pub fn parse(bytes: &[u8], test: &Experiment) -> Option<Self> {
        let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let count = |at: usize| u32_at(at).map(u64::from);
        let ticks = |at: usize| count(at).map(|ticks| ticks * (test.tick_ns / 1_000));
        let (begun_ns, at_ns) = (u64_at(8)?, u64_at(16)?);
        let flags = *bytes.get(157)?;
        let mut state_us = (flags & STATES_KNOWN != 0).then_some([0; STATES]);
        for (nth, us) in state_us.iter_mut().flatten().enumerate() {
            *us = u64_at(BYTES_1 + 8 * nth)? / 1_000;
        }
        let client: [u8; 16] = bytes.get(136..152)?.try_into().ok()?;
        Some(Self {
            id: u64_at(0)?,
            arm: *bytes.get(156)?,
            bucket: u16_at(152)?,
            epoch: u32_at(128)?,
            nth: u32_at(132)?,
            is_open: flags & OPEN != 0,
            is_passive: flags & PASSIVE != 0,
            is_refused: flags & REFUSED != 0,
            is_overridden: flags & OVERRIDDEN != 0,
            begun_unix_ns: begun_ns.saturating_add(test.unix_minus_monotonic_ns),
            lasted_us: at_ns.saturating_sub(begun_ns) / 1_000,
            client: test.keep.client(u128::from_be_bytes(client)),
            port: u16_at(154)?,
            cgroup: u64_at(24)?,
            bytes_acked: u64_at(32)?,
            bytes_received: u64_at(40)?,
            bytes_sent: u64_at(48)?,
            bytes_retrans: u64_at(56)?,
            pacing_bps: u64_at(64)?.saturating_mul(8),
            delivery_rate_bps: u64_at(72)?.saturating_mul(8),
            busy_us: ticks(80)?,
            rwnd_limited_us: ticks(84)?,
            sndbuf_limited_us: ticks(88)?,
            data_segs_out: count(92)?,
            retrans_segs: count(96)?,
            delivered: count(100)?,
            delivered_ce: count(104)?,
            lost: count(108)?,
            min_rtt_us: count(112)?,
            srtt_us: count(116)?,
            cwnd: count(120)?,
            mss: count(124)?,
            is_app_limited: flags & APP_LIMITED != 0,
            state_us,
        })
    }

    /// Retransmitted over sent segments; `None` if nothing was sent.
    pub fn retransmit_ratio(&self) -> Option<f64> {
        (self.data_segs_out > 0).then(|| self.retrans_segs as f64 / self.data_segs_out as f64)
    }

    /// Busy time in seconds. The kernel counts in ticks; the position within the tick is drawn from the connection's
    /// number, so that medians do not cluster at whole ticks.
    pub fn busy_s(&self, tick_ns: u64) -> f64 {
        let place = (self.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64;
        let busy_s = self.busy_us as f64 / 1e6 + (place - 0.5) * tick_ns as f64 / 1e9;
        busy_s.max(self.min_rtt_us as f64 / 1e6).max(1e-6)
    }
}

/// [`states`] as columns of a table.
#[cfg(feature = "parquet")]
const STATE_COLUMNS: [&str; STATES] = [
    "startup_us",
    "drain_us",
    "probe_bw_refill_us",
    "probe_bw_up_us",
    "probe_bw_down_us",
    "probe_bw_cruise_us",
    "probe_rtt_us",
];

/// Field of a [`Row`] with the times in BBR's states, which are several columns of a table.
const STATE_FIELD: &str = "state_us";

macro_rules! columns {
    ($($kind:ident $field:ident)+) => {
        /// Fields of a [`Row`], as [`Records::scan`](super::Records::scan) takes them.
        pub const FIELDS: &[&str] = &["client", STATE_FIELD, $( stringify!($field) ),+];

        impl Row {
            /// Returns a row with these fields; the others are as by default.
            ///
            /// # Panics
            /// If one is not in [`FIELDS`].
            #[must_use]
            pub fn only(&self, fields: &[&str]) -> Self {
                let mut own = Self::default();
                for field in fields {
                    match *field {
                        "client" => own.client = self.client,
                        STATE_FIELD => own.state_us = self.state_us,
                        $( stringify!($field) => own.$field = self.$field, )+
                        other => panic!("no field {other}"),
                    }
                }
                own
            }
        }

        #[cfg(feature = "parquet")]
        fn whole_columns(rows: &[Row]) -> Vec<(&'static str, Vec<Option<u64>>)> {
            vec![ $( (stringify!($field), rows.iter().map(|row| Some(columns!(@to $kind row.$field))).collect()) ),+ ]
        }

        /// Sets a field of all rows; the error is the place of a value that it cannot have.
        #[cfg(feature = "parquet")]
        fn set(rows: &mut [Row], field: &str, values: &[i64]) -> Result<(), usize> {
            match field {
                $( stringify!($field) => {
                    for (place, (row, &value)) in rows.iter_mut().zip(values).enumerate() {
                        row.$field = u64::try_from(value).ok().and_then(|value| columns!(@from $kind value)).ok_or(place)?;
                    }
                } )+
                other => panic!("no field {other}"),
            }
            Ok(())
        }
    };
    (@to flag $value:expr) => { u64::from($value) };
    (@to small $value:expr) => { u64::from($value) };
    (@to whole $value:expr) => { $value };
    (@from flag $value:expr) => { Some($value != 0) };
    (@from small $value:expr) => { $value.try_into().ok() };
    (@from whole $value:expr) => { Some($value) };
}

columns! {
    whole id small arm small bucket small epoch small nth flag is_open flag is_passive flag is_refused flag is_overridden
    whole begun_unix_ns whole lasted_us small port whole cgroup
    whole bytes_acked whole bytes_received whole bytes_sent whole bytes_retrans
    whole busy_us whole rwnd_limited_us whole sndbuf_limited_us
    whole data_segs_out whole retrans_segs whole delivered whole delivered_ce whole lost
    whole min_rtt_us whole srtt_us whole cwnd whole mss whole pacing_bps whole delivery_rate_bps flag is_app_limited
}

#[cfg(feature = "parquet")]
pub use table::{read, write};

#[cfg(feature = "parquet")]
mod table {
    use std::io;

    use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
    use ::parquet::data_type::DataType;
    use ::parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};

    use crate::{Error, Result};

    use super::{Client, Row, STATE_COLUMNS, STATE_FIELD, STATES, set, whole_columns};
    use bbrlab_report::export::parquet::{Values, Writer};

    /// Rows of a group that is written. Ours: some 5 MB.
    const GROUP: usize = 16_384;
    /// Rows that are read at a time. Ours: they stay in the second-level cache.
    const CHUNK: usize = 1_024;

    fn values(rows: &[Row], labels: &[String]) -> Vec<(&'static str, Values)> {
        let label = |row: &Row| labels.get(usize::from(row.arm)).cloned();
        let mut all = vec![
            ("algorithm", Values::Text(rows.iter().map(label).collect())),
            ("client", Values::Text(rows.iter().map(|row| Some(row.client.to_string())).collect())),
        ];
        all.extend(whole_columns(rows).into_iter().map(|(name, values)| (name, Values::Whole(values))));
        let time = |nth: usize| rows.iter().map(|row| row.state_us.map(|times| times[nth])).collect();
        all.extend(STATE_COLUMNS.iter().enumerate().map(|(nth, name)| (*name, Values::Whole(time(nth)))));
        all
    }

    /// Writes rows as Parquet, one group at a time.
    pub fn write<W: io::Write + Send>(to: W, rows: impl Iterator<Item = Row>, labels: &[String]) -> io::Result<W> {
        let empty = values(&[], labels);
        let columns: Vec<(&str, &Values)> = empty.iter().map(|(name, values)| (*name, values)).collect();
        let mut writer = Writer::new(to, "connections", &columns)?;
        let mut group = Vec::with_capacity(GROUP);
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            group.clear();
            group.extend(rows.by_ref().take(GROUP));
            let values = values(&group, labels);
            writer.group(&values.iter().map(|(_, values)| values).collect::<Vec<_>>())?;
        }
        writer.finish()
    }

    /// A column of a group, and room for its values.
    struct Column<T: DataType> {
        reader: ColumnReaderImpl<T>,
        values: Vec<T::T>,
        levels: Vec<i16>,
    }

    impl<T: DataType> Column<T> {
        const fn new(reader: ColumnReaderImpl<T>) -> Self {
            Self { reader, values: Vec::new(), levels: Vec::new() }
        }

        /// Reads the next values. Those that are missing have the level 0, and no value.
        fn read(&mut self, count: usize) -> Result<()> {
            self.values.clear();
            self.levels.clear();
            let (mut read, mut least) = (0, 1);
            while read < count && least > 0 {
                (least, _, _) =
                    self.reader.read_records(count - read, Some(&mut self.levels), None, &mut self.values)?;
                read += least;
            }
            if read == count { Ok(()) } else { Err(Error::BadRecord) }
        }
    }

    type Whole = Column<::parquet::data_type::Int64Type>;
    type Text = Column<::parquet::data_type::ByteArrayType>;

    /// The requested fields of a group.
    #[derive(Default)]
    struct Group<'a> {
        client: Option<Text>,
        states: Vec<Whole>,
        whole: Vec<(&'a str, Whole)>,
    }

    impl<'a> Group<'a> {
        fn new(from: &dyn RowGroupReader, names: &[String], fields: &[&'a str]) -> Result<Self> {
            let column = |name: &str| {
                let place = names.iter().position(|one| one == name);
                let place = place.ok_or_else(|| Error::NoRecordColumn(name.to_owned()))?;
                Ok::<_, Error>(from.get_column_reader(place)?)
            };
            let whole = |name: &str| match column(name)? {
                ColumnReader::Int64ColumnReader(reader) => Ok(Column::new(reader)),
                _ => Err(Error::BadRecord),
            };
            let mut all = Self::default();
            for &field in fields {
                match field {
                    "client" => match column(field)? {
                        ColumnReader::ByteArrayColumnReader(reader) => all.client = Some(Column::new(reader)),
                        _ => return Err(Error::BadRecord),
                    },
                    // Tables of tests of schema 1 have no state columns.
                    STATE_FIELD if !names.iter().any(|name| name == STATE_COLUMNS[0]) => {}
                    STATE_FIELD => all.states = STATE_COLUMNS.iter().map(|name| whole(name)).collect::<Result<_>>()?,
                    _ => all.whole.push((field, whole(field)?)),
                }
            }
            Ok(all)
        }

        /// Reads the next rows. The error has the place of a bad value among them.
        fn read(&mut self, rows: &mut [Row]) -> Result<(), (usize, Error)> {
            let count = rows.len();
            for (field, column) in &mut self.whole {
                column.read(count).map_err(|error| (0, error))?;
                if let Some(missing) = column.levels.iter().position(|level| *level == 0) {
                    return Err((missing, Error::BadRecord));
                }
                set(rows, field, &column.values).map_err(|place| (place, Error::BadRecord))?;
            }
            if let Some(column) = &mut self.client {
                column.read(count).map_err(|error| (0, error))?;
                for (place, row) in rows.iter_mut().enumerate() {
                    let text = column.values.get(place).and_then(|bytes| bytes.as_utf8().ok());
                    let client = text.and_then(|text| text.parse::<Client>().ok());
                    row.client = client.ok_or((place, Error::BadRecord))?;
                }
            }
            for column in &mut self.states {
                column.read(count).map_err(|error| (0, error))?;
            }
            if self.states.len() == STATES {
                let mut next = [0; STATES];
                for (place, row) in rows.iter_mut().enumerate() {
                    let mut times = Some([0; STATES]);
                    for (nth, column) in self.states.iter().enumerate() {
                        let is_known = column.levels[place] > 0;
                        let value = is_known.then(|| u64::try_from(column.values[next[nth]]).ok()).flatten();
                        next[nth] += usize::from(is_known);
                        times = times.zip(value).map(|(mut times, us)| {
                            times[nth] = us;
                            times
                        });
                    }
                    row.state_us = times;
                }
            }
            Ok(())
        }
    }

    /// Reads these fields of all rows, and passes some rows at a time to `each`.
    pub fn read<R: ChunkReader + 'static>(from: R, fields: &[&str], mut each: impl FnMut(&[Row])) -> Result<()> {
        let reader = SerializedFileReader::new(from)?;
        let schema = reader.metadata().file_metadata().schema();
        let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
        let mut rows = vec![Row::default(); CHUNK];
        let mut before = 0;
        for nth in 0..reader.num_row_groups() {
            let from = reader.get_row_group(nth)?;
            let mut left = usize::try_from(from.metadata().num_rows()).unwrap_or(0);
            let mut group = Group::new(from.as_ref(), &names, fields)?;
            while left > 0 {
                let some = &mut rows[..left.min(CHUNK)];
                let at_row = |place: usize| format!("row {}", before + place + 1);
                group.read(some).map_err(|(place, error)| Error::at(at_row(place))(error))?;
                each(some);
                before += some.len();
                left -= some.len();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::testing::experiment;

    fn bytes() -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &7_u64.to_ne_bytes());
        put(8, &5_000_000_u64.to_ne_bytes());
        put(16, &9_000_000_u64.to_ne_bytes());
        put(32, &3_000_000_u64.to_ne_bytes());
        put(64, &125_u64.to_ne_bytes());
        put(80, &3_u32.to_ne_bytes());
        put(92, &200_u32.to_ne_bytes());
        put(96, &5_u32.to_ne_bytes());
        put(132, &1_u32.to_ne_bytes());
        put(146, &[0xff, 0xff, 192, 0, 2, 0]);
        put(152, &4_321_u16.to_ne_bytes());
        put(154, &443_u16.to_ne_bytes());
        put(156, &[2, PASSIVE | OVERRIDDEN | STATES_KNOWN]);
        put(160, &1_500_000_u64.to_ne_bytes());
        put(208, &2_500_999_u64.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_record_is_read_by_its_places_and_no_damage_panics() {
        let test = experiment(&["cubic", "bbr3", "bbr1"], "50,25,25");
        let row = Row::parse(&bytes(), &test).unwrap();
        assert_eq!((row.id, row.arm, row.bucket, row.port, row.nth), (7, 2, 4_321, 443, 1));
        assert_eq!((row.bytes_acked, row.lasted_us, row.busy_us, row.pacing_bps), (3_000_000, 4_000, 12_000, 1_000));
        assert_eq!((row.client.to_string().as_str(), row.retransmit_ratio()), ("192.0.2.0/24", Some(0.025)));
        assert!(row.is_passive && row.is_overridden && !row.is_open && !row.is_refused && !row.is_app_limited);
        assert_eq!(row.state_us, Some([1_500, 0, 0, 0, 0, 0, 2_500]));
        for end in (0..158).chain(160..BYTES) {
            assert_eq!(Row::parse(&bytes()[..end], &test), None);
        }
        let old = Experiment { schema: 1, ..test };
        let mut one = bytes()[..bytes_of(&old)].to_vec();
        one[157] = PASSIVE;
        assert_eq!(Row::parse(&one, &old).unwrap(), Row { is_overridden: false, state_us: None, ..row });
    }

    #[test]
    fn times_are_spread_over_their_tick_around_what_the_kernel_counted() {
        let rows = (0..10_000).map(|id| Row { id, busy_us: 100_000, ..Row::default() });
        let times: Vec<f64> = rows.map(|row| row.busy_s(4_000_000)).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean - 0.1).abs() < 1e-4, "{mean}");
        assert!(times.iter().all(|time| (0.098..=0.102).contains(time)));
        assert_eq!(Row { min_rtt_us: 20_000, ..Row::default() }.busy_s(4_000_000), 0.02);
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn rows_read_back_from_parquet_as_they_were() {
        let test = experiment(&["cubic", "bbr3", "bbr1"], "50,25,25");
        let first = Row::parse(&bytes(), &test).unwrap();
        let states = |id: u64| (!id.is_multiple_of(3)).then_some([id, 1, 2, 3, 4, 5, u64::MAX / 1_000]);
        let rows: Vec<Row> = (0..40_000).map(|id| Row { id, state_us: states(id), ..first.clone() }).collect();
        let file = write(Vec::new(), rows.iter().cloned(), &test.labels()).unwrap();
        let file = bytes::Bytes::from(file);
        let back = |fields: &[&str]| {
            let mut back = Vec::new();
            read(file.clone(), fields, |rows| back.extend_from_slice(rows)).unwrap();
            back
        };
        assert!(back(FIELDS) == rows);
        for field in FIELDS {
            let wanted: Vec<Row> = rows.iter().map(|row| row.only(&[field])).collect();
            assert!(back(&[field]) == wanted, "{field}");
        }
        assert!(read(bytes::Bytes::from_static(b"PAR1"), FIELDS, |_| {}).is_err());
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn a_value_out_of_range_is_named_by_its_row() {
        use bbrlab_report::export::parquet::{Values, Writer};

        let column =
            |bad: Option<u64>| Values::Whole((0..2_000).map(|row| if row == 1_500 { bad } else { Some(1) }).collect());
        for bad in [Some(300), None] {
            let (good, bad) = (column(Some(1)), column(bad));
            let mut writer = Writer::new(Vec::new(), "connections", &[("id", &good), ("arm", &bad)]).unwrap();
            writer.group(&[&good, &bad]).unwrap();
            let file = bytes::Bytes::from(writer.finish().unwrap());
            let error = read(file.clone(), &["id", "arm"], |_| {}).unwrap_err().to_string();
            assert_eq!(error, "row 1501: a value is missing or out of range");
            assert!(read(file.clone(), &["id"], |_| {}).is_ok());
            assert!(read(file, &["port"], |_| {}).unwrap_err().to_string().contains("no column port"));
        }
    }
}
