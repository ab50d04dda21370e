/// Joins the lines of a CSV or TSV into records: a field in quotes may contain line ends.
///
/// Only quotes and delimiters are looked at. Fields are read from a whole record, so that the splitter holds one record
/// at a time, or a part of the list of that size if a quote has no end.
struct RecordSplitter {
    /// A line, without its line feed.
    struct Line: Equatable {
        var text: String
        /// Line number, from 1.
        var number: Int
        var isUTF8 = true
        /// Whether the text is only the beginning of a line above the limit of `LineReader`.
        var isCut = false
    }

    /// The next record, or a line that cannot begin one.
    enum Record: Equatable {
        /// Lines that belong together, without the last line end. The number is that of the first line.
        case whole(Line)
        /// A line with a quote that has no end within the limits. The record is given up, and the lines after this
        /// one are split anew, so that one quote does not hide the rest of the list.
        case unterminated(Line)
        /// A record, or a line, above the limit.
        case tooLong(Line)
    }

    /// Position within a record, as an RFC 4180 parser has it. Blanks before a quote are skipped.
    private enum Position {
        case fieldStart, plain, quoted
        /// After a quote within quotes: their end, or the first half of an escaped quote.
        case quote
    }

    /// Maximum size of a record, bytes.
    static let sizeLimit = 2 * 1024 * 1024
    /// Maximum number of lines of a record.
    static let lineLimit = 65_536

    /// The delimiter, or the two that may be; the same twice if it is known.
    private let delimiters: (UInt8, UInt8)
    private var lines: ArraySlice<Line> = []
    /// Number of lines, from the first one, that belong to the current record.
    private var count = 0
    /// Bytes of these lines.
    private var size = 0
    private var position = Position.fieldStart
    /// Number of records that were given up. Each halves the limits of the next ones: the lines behind it are read
    /// again, and a list with such a quote in each line would take time without end.
    private var unterminated = 0

    /// Creates a splitter.
    ///
    /// - Parameters:
    ///   - delimiter: the delimiter.
    ///   - other: another one that it may be, while that is not known yet.
    init(delimiter: UInt8, or other: UInt8? = nil) { delimiters = (delimiter, other ?? delimiter) }

    /// Line number of the first line that is part of no returned record; nil if there is none.
    var firstLine: Int? { lines.first?.number }

    mutating func add(_ line: Line) { lines.append(line) }

    /// The splitter for the rest of the list, by the delimiter that the header has shown.
    func continued(delimiter: UInt8) -> RecordSplitter {
        var copy = RecordSplitter(delimiter: delimiter)
        copy.lines = lines
        return copy
    }

    /// The next record; nil if it needs more lines.
    ///
    /// - Parameter isAtEnd: whether all lines have been added.
    mutating func next(isAtEnd: Bool) -> Record? {
        while count < lines.count {
            let line = lines[lines.startIndex + count]
            if line.isCut { return count == 0 ? .tooLong(take().record) : giveUp() }
            count += 1
            size += line.text.utf8.count + 1
            scan(line.text)
            if position != .quoted {
                let (record, size) = take()
                return size > Self.sizeLimit ? .tooLong(record) : .whole(record)
            }
            let shift = min(unterminated, 12)
            if size > max(Self.sizeLimit >> shift, 65_536) || count >= max(Self.lineLimit >> shift, 16) {
                return giveUp()
            }
            // The line end is a part of the field.
        }
        return isAtEnd && !lines.isEmpty ? giveUp() : nil
    }

    private mutating func giveUp() -> Record {
        count = 1
        unterminated += 1
        return .unterminated(take().record)
    }

    /// Removes the lines of the current record, at least one, and joins them.
    private mutating func take() -> (record: Line, size: Int) {
        let end = lines.startIndex + max(1, count)
        let taken = lines[..<end]
        lines = lines[end...]
        defer { (count, size, position) = (0, 0, .fieldStart) }
        var record = taken[taken.startIndex]
        if taken.count > 1 {
            record.text = taken.map(\.text).joined(separator: "\n")
            record.isUTF8 = taken.allSatisfy(\.isUTF8)
        }
        if record.text.utf8.last == UInt8(ascii: "\r") {
            record.text = String(decoding: record.text.utf8.dropLast(), as: UTF8.self)
        }
        return (record, size)
    }

    private mutating func scan(_ text: String) {
        var position = position
        for byte in text.utf8 {
            switch position {
            case .quoted: if byte == UInt8(ascii: "\"") { position = .quote }
            case .quote where byte == UInt8(ascii: "\""): position = .quoted
            case .fieldStart where byte == UInt8(ascii: "\""): position = .quoted
            case _ where byte == delimiters.0 || byte == delimiters.1: position = .fieldStart
            case .fieldStart, .quote: if byte != UInt8(ascii: " ") && byte != UInt8(ascii: "\t") { position = .plain }
            case .plain: break
            }
        }
        self.position = position
    }
}
