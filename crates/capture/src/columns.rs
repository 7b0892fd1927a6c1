//! Typed access to the columns of a batch that may have been edited, and arrays of names.
//!
//! Every access checks that the column is there, has its type, and holds no NULL where none is
//! allowed. Errors name the file, the table, the column and the row.

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, PrimitiveArray, RecordBatch, UInt64Array,
};
use arrow_schema::DataType;
use haltwise_core::hist::LogHist;

use crate::error::{CaptureReadError, TableFile};

/// A batch, and where it came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) batch: &'a RecordBatch,
    pub(crate) file: &'a TableFile,
    /// The number of its first row, counted from 0 in the file.
    pub(crate) first_row: u64,
}

impl<'a> Columns<'a> {
    pub(crate) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    fn refused(&self, column: &str, what: &str) -> CaptureReadError {
        CaptureReadError::Column {
            file: self.file.clone(),
            what: format!(": column `{column}`{what}"),
        }
    }

    pub(crate) fn bad_value(&self, column: &str, row: usize, what: &str) -> CaptureReadError {
        let row = self.first_row.saturating_add(row as u64);
        self.refused(column, &format!(", row {row}: {what}"))
    }

    fn column(&self, name: &str) -> Result<&'a ArrayRef, CaptureReadError> {
        self.batch
            .column_by_name(name)
            .ok_or_else(|| CaptureReadError::Column {
                file: self.file.clone(),
                what: format!(" has no column `{name}`"),
            })
    }

    fn wrong_type(&self, name: &str, array: &dyn Array) -> CaptureReadError {
        let mut columns = self.file.table.columns().iter();
        let declared = columns.find(|column| column.name == name);
        let wanted = declared.map_or("what it should be", |column| column.kind.as_str());
        self.refused(name, &format!(" is {}, not {wanted}", array.data_type()))
    }

    /// The first row in which an array is NULL, as an error.
    fn no_nulls(&self, name: &str, array: &dyn Array) -> Result<(), CaptureReadError> {
        if array.null_count() == 0 {
            return Ok(());
        }
        let row = (0..array.len())
            .find(|&row| array.is_null(row))
            .unwrap_or_default();
        Err(self.bad_value(name, row, "NULL where a value must be"))
    }

    /// A column that may be NULL.
    pub(crate) fn maybe<A: Array + 'static>(&self, name: &str) -> Result<&'a A, CaptureReadError> {
        let array = self.column(name)?;
        let found = array.as_any().downcast_ref();
        found.ok_or_else(|| self.wrong_type(name, array))
    }

    /// A column that has a value in each row.
    pub(crate) fn full<A: Array + 'static>(&self, name: &str) -> Result<&'a A, CaptureReadError> {
        let array: &A = self.maybe(name)?;
        self.no_nulls(name, array)?;
        Ok(array)
    }

    pub(crate) fn names<T: Copy>(
        &self,
        name: &str,
        meaning: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, CaptureReadError> {
        let array = self.column(name)?;
        if let Some(dictionary) = array.as_dictionary_opt::<Int8Type>() {
            return self.keyed_names(name, dictionary, &meaning);
        }
        if let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() {
            return self.keyed_names(name, dictionary, &meaning);
        }
        Err(self.wrong_type(name, array))
    }

    fn keyed_names<T: Copy, K: arrow_array::types::ArrowDictionaryKeyType>(
        &self,
        name: &str,
        dictionary: &'a DictionaryArray<K>,
        meaning: &impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, CaptureReadError> {
        let Some(words) = dictionary.values().as_string_opt::<i32>() else {
            return Err(self.wrong_type(name, dictionary));
        };
        let meanings: Vec<Option<T>> = (0..words.len())
            .map(|key| words.is_valid(key).then(|| meaning(words.value(key)))?)
            .collect();
        (0..dictionary.len())
            .map(|row| match dictionary.key(row) {
                None => Err(self.bad_value(name, row, "NULL where a value must be")),
                Some(key) => meanings.get(key).copied().flatten().ok_or_else(|| {
                    let word = if key < words.len() {
                        words.value(key)
                    } else {
                        ""
                    };
                    self.bad_value(name, row, &format!("the unknown name `{word}`"))
                }),
            })
            .collect()
    }

    pub(crate) fn lists(&self, name: &str) -> Result<Vec<Vec<u64>>, CaptureReadError> {
        let array = self.column(name)?;
        let wrong = || self.wrong_type(name, array);
        let lists = array.as_list_opt::<i32>().ok_or_else(wrong)?;
        if *lists.values().data_type() != DataType::UInt64 {
            return Err(wrong());
        }
        self.no_nulls(name, lists)?;
        let list = |row| {
            let list = lists.value(row);
            let numbers: &PrimitiveArray<UInt64Type> = list.as_primitive();
            if numbers.null_count() > 0 {
                return Err(self.bad_value(name, row, "NULL inside the list"));
            }
            Ok(numbers.values().to_vec())
        };
        (0..self.len()).map(list).collect()
    }

    /// The three columns `…_hist`, `…_sum` and `…_max` of a histogram.
    pub(crate) fn hists(&self, stem: &str) -> Result<Vec<LogHist>, CaptureReadError> {
        let name = format!("{stem}_hist");
        let lists = self.lists(&name)?;
        let sums: &UInt64Array = self.full(&format!("{stem}_sum"))?;
        let maxima: &UInt64Array = self.full(&format!("{stem}_max"))?;
        let hist = |(row, counts): (usize, Vec<u64>)| {
            let buckets = counts.len();
            LogHist::from_parts(counts, sums.value(row), maxima.value(row)).ok_or_else(|| {
                let what = format!(
                    "{buckets} buckets (at most {}), or counts that add up to more than 2^64-1",
                    haltwise_core::hist::BUCKETS
                );
                self.bad_value(&name, row, &what)
            })
        };
        lists.into_iter().enumerate().map(hist).collect()
    }
}

/// An array of names, each given by its place among the words.
///
/// The words are the same in every batch, so that a stream holds them once.
pub(crate) fn name_array(words: &[&str], places: impl Iterator<Item = u8>) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    for word in words {
        builder.append_value(word);
    }
    let values = builder.finish().values().clone();
    let keys = Int8Array::from_iter_values(places.map(u8::cast_signed));
    crate::tables::array(DictionaryArray::new(keys, values))
}
