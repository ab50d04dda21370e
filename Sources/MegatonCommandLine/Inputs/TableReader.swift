import Foundation
import MegatonCluster
import MegatonCore
import SwiftCSV

/// Reads the rows of a CSV or TSV list as they arrive, one record at a time.
package struct TableReader {
    /// A row, or the reason why it is none.
    enum ReadResult {
        case row(Row)
        case refused(line: String, reason: String, location: LineLocation)
        /// No whole record is available: its writer is slow.
        case nothingYet
        case end
    }

    /// One row of a list.
    struct Row: Equatable {
        /// A URL or a path.
        var source: String
        var id: String?
        var labels: Job.Labels?
        var location: LineLocation
    }

    private var lines: LineReader
    private let format: ListFormat.TableFormat
    private let options: TableOptions
    private let required: RequiredFields
    private var delimiter = UInt8(ascii: ",")
    private var splitter: RecordSplitter
    private var isAtEnd = false
    /// Nil until the header has been read.
    private var columns: TableColumns?

    /// Characters of a refused record that the ledger has.
    private static let excerpt = 256
    /// Maximum number of labels that a message names.
    private static let shownLabels = 32

    init(
        _ lines: LineReader,
        _ format: ListFormat.TableFormat,
        _ options: TableOptions,
        _ required: RequiredFields = RequiredFields()
    ) {
        self.required = required
        self.lines = lines
        self.format = format
        self.options = options
        splitter =
            format == .tsv
            ? RecordSplitter(delimiter: UInt8(ascii: "\t"))
            : RecordSplitter(delimiter: UInt8(ascii: ","), or: UInt8(ascii: ";"))
    }

    /// Reads the next row.
    ///
    /// - Parameter milliseconds: how long to wait for bytes; negative waits without limit.
    /// - Throws: `CLIError` if the list cannot be read, or if its header does not have the columns, or no column for a
    ///   required label.
    mutating func next(waiting milliseconds: Int32) throws -> ReadResult {
        while true {
            if let record = splitter.next(isAtEnd: isAtEnd) {
                guard let result = try result(record) else { continue }
                // The next record would be taken for the header.
                if columns == nil, case .refused(_, let reason, let location) = result {
                    let kind = ListFormat.table(format).description
                    throw CLIError.usage("\(location) cannot be the header of \(kind): \(reason).")
                }
                return result
            }
            if isAtEnd { return .end }
            switch try lines.next(waiting: milliseconds) {
            case .line(let text): splitter.add(line(text))
            case .tooLong(let beginning):
                var line = line(beginning)
                line.isCut = true
                splitter.add(line)
            case .nothingYet: return .nothingYet
            case .end: isAtEnd = true
            }
        }
    }

    /// Checks the header.
    ///
    /// - Throws: as ``next(waiting:)``.
    mutating func checkHeader() throws { _ = try next(waiting: -1) }

    /// - Throws: `CLIError` for the first required field that no column gives: each row would be refused.
    private func requireFields(_ columns: TableColumns) throws(CLIError) {
        if required.id && columns.id == nil {
            let example = columns.names.first { $0.lowercased().hasSuffix("id") && !$0.contains(" ") } ?? "COLUMN"
            throw CLIError.usage(
                "--name has {id}, and no column of \(lines.name) is known to have the ids: name it by --id-column "
                    + "\(example), or write {hash} or {stem} in the place of {id}."
            )
        }
        let known = columns.labels.map { columns.names[$0] }
        guard let missing = required.labels.first(where: { !known.contains($0) }) else { return }
        let shown = known.prefix(Self.shownLabels).map { FieldProblem.quoted($0) }.joined(separator: ", ")
        let more = known.count > Self.shownLabels ? ", …" : ""
        let near = Spelling.nearest(to: missing, among: known).map { " Did you mean {label.\($0)}?" } ?? ""
        throw CLIError.usage(
            "--name has {label.\(missing)}, and \(lines.name) has no column with this label; "
                + (known.isEmpty ? "its rows have no labels." : "its labels are \(shown)\(more).") + near
        )
    }

    private func line(_ text: String) -> RecordSplitter.Line {
        RecordSplitter.Line(text: text, number: lines.location.number, isUTF8: lines.isUTF8)
    }

    /// Nil for an empty line, and for the header.
    private mutating func result(_ record: RecordSplitter.Record) throws -> ReadResult? {
        switch record {
        case .tooLong(let line): return refused(line, "it is longer than \(RecordSplitter.sizeLimit) bytes")
        case .unterminated(let line):
            return refused(
                line,
                "a quote that begins in this line has no end in the next \(RecordSplitter.lineLimit) lines or "
                    + "\(RecordSplitter.sizeLimit) bytes. The lines after this one are read as rows of their own"
            )
        case .whole(let line):
            if line.text.utf8.allSatisfy({ $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\r") }) { return nil }
            guard line.isUTF8 else {
                return refused(line, "it is not UTF-8. Save the list as UTF-8")
            }
            if columns == nil, format == .csv { delimiter = Self.delimiter(of: line.text) }
            if columns == nil, format == .tsv { delimiter = UInt8(ascii: "\t") }
            let fields: [String]
            do throws(Unreadable) {
                fields = try Self.fields(line.text, delimiter)
            } catch {
                return refused(line, error.reason)
            }
            if let columns { return row(fields, columns, line) }
            let chosen = try TableColumns(
                fields,
                options,
                list: lines.name,
                kind: ListFormat.table(format).description,
                isSource: InputReader.isSource
            )
            try requireFields(chosen)
            columns = chosen
            splitter = splitter.continued(delimiter: delimiter)
            return chosen.isFirstRecordRow ? row(fields, chosen, line) : nil
        }
    }

    private func refused(_ line: RecordSplitter.Line, _ reason: String) -> ReadResult {
        .refused(
            line: String(line.text.prefix(Self.excerpt)),
            reason: reason,
            location: LineLocation(list: lines.name, number: line.number)
        )
    }

    // MARK: - Fields

    private struct Unreadable: Error {
        let reason: String
    }

    /// The delimiter of a CSV: the one of the two that its header has outside of quotes, a comma if both.
    private static func delimiter(of header: String) -> UInt8 {
        var (isQuoted, hasSemicolon) = (false, false)
        for byte in header.utf8 {
            switch byte {
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: ",") where !isQuoted: return byte
            case UInt8(ascii: ";") where !isQuoted: hasSemicolon = true
            default: break
            }
        }
        return UInt8(ascii: hasSemicolon ? ";" : ",")
    }

    private static func fields(_ record: String, _ delimiter: UInt8) throws(Unreadable) -> [String] {
        let character = Character(Unicode.Scalar(delimiter))
        // Lists that were written twice with the line ends of Windows have several.
        var record = record
        while record.utf8.last == UInt8(ascii: "\r") { record.removeLast() }
        // The parser judges a quote by the character behind it, and the last field has none.
        let text = record + String(character)
        // The parser compares characters, to which a combining mark belongs: quote and mark would be one other
        // character, and the fields would not be those of any other program.
        guard isWhole(character, in: text) && isWhole("\"", in: text) else {
            throw Unreadable(reason: "a character that joins its neighbor is directly beside a quote or a delimiter")
        }
        let parsed: (header: [String], hasRows: Bool)
        do {
            parsed = try FirstRow.parse(text, character)
        } catch {
            throw Unreadable(
                reason: "a quote is in the middle of a field. A field with a quote is written in quotes, with each of "
                    + "its own quotes twice: \"5\"\" wide\""
            )
        }
        guard !parsed.hasRows else {
            throw Unreadable(reason: "it has a carriage return without a line feed. Save the list with usual line ends")
        }
        // Usual programs end rows with a delimiter: it begins no further field.
        let last = record.utf8.last { $0 == delimiter || $0 != UInt8(ascii: " ") }
        let endsEmpty = parsed.header.count > 1 && parsed.header.last == "" && last == delimiter
        return endsEmpty ? Array(parsed.header.dropLast()) : parsed.header
    }

    /// Whether an ASCII character is one by itself each time: a combining mark joins the one before it, and the sign of
    /// an Arabic number, for example, the one behind it (UAX #29, rules GB9 to GB9b).
    private static func isWhole(_ character: Character, in text: String) -> Bool {
        // Characters are counted only if one that is not ASCII is beside it: that takes as long as to parse the fields.
        var last: UInt8 = 0
        let isBesideOthers = text.utf8.contains { byte in
            defer { last = byte }
            return byte >= 0x80 && last == character.asciiValue || last >= 0x80 && byte == character.asciiValue
        }
        return !isBesideOthers || text.utf8.count { $0 == character.asciiValue } == text.count { $0 == character }
    }

    // MARK: - Rows

    private func row(_ fields: [String], _ columns: TableColumns, _ line: RecordSplitter.Line) -> ReadResult {
        if fields.count > columns.names.count {
            return refused(
                line,
                "it has \(fields.count) fields, but the list has \(Counted.of(columns.names.count, "column")). A field "
                    + "with a delimiter is written in quotes"
            )
        }
        func field(_ index: Int) -> String { index < fields.count ? fields[index] : "" }
        func name(_ index: Int) -> String { FieldProblem.quoted(columns.names[index]) }
        let source = InputReader.trimmed(field(columns.url))
        if source.isEmpty { return refused(line, "its column \(name(columns.url)) is empty") }
        let id = columns.id.map { InputReader.trimmed(field($0)) }
        if let column = columns.id, let id, !Job.isName(id) {
            return refused(
                line,
                "its id, column \(name(column)), is \(FieldProblem.quoted(id)); allowed are \(Job.nameRule)"
            )
        }
        let labels = Dictionary(uniqueKeysWithValues: columns.labels.map { (columns.names[$0], field($0)) })
        if let reason = Self.excess(labels) { return refused(line, reason) }
        return .row(
            Row(
                source: source,
                id: id,
                labels: labels.isEmpty ? nil : labels.mapValues { .text($0) },
                location: LineLocation(list: lines.name, number: line.number)
            )
        )
    }

    /// Why these labels are too large; nil if they are not.
    private static func excess(_ labels: [String: String]) -> String? {
        let size = Job.encodedSize(labels.mapValues { .text($0) })
        guard size > Job.maximumLabels else { return nil }
        let sizes = labels.map { (name: $0.key, size: $0.key.utf8.count + $0.value.utf8.count) }
        let largest = sizes.sorted { ($1.size, $0.name) < ($0.size, $1.name) }.prefix(3)
        let names = largest.map { "\(FieldProblem.quoted($0.name)) (\($0.size) bytes)" }.joined(separator: ", ")
        return "its labels have \(size) bytes of JSON; allowed are \(Job.maximumLabels). The largest columns are "
            + "\(names). --label-columns a,b chooses columns"
    }
}

/// The fields of a record. The library's view of all rows would parse them again to find that there are no others.
private struct FirstRow: CSVView {
    let rows: [[String]] = []
    let columns: [String]? = nil

    init(header: [String], text: String, delimiter: CSVDelimiter, loadColumns: Bool, rowLimit: Int?) {}

    func serialize(header: [String], delimiter: CSVDelimiter) -> String { "" }

    /// - Returns: the fields of the first row, and whether there are others.
    /// - Throws: `CSVParseError`.
    static func parse(_ text: String, _ delimiter: Character) throws -> (header: [String], hasRows: Bool) {
        let delimiter = CSVDelimiter(unicodeScalarLiteral: delimiter)
        if text.unicodeScalars.contains(where: isLineEnd) {
            let csv = try EnumeratedCSV(string: text, delimiter: delimiter, loadColumns: false)
            return (csv.header, !csv.rows.isEmpty)
        }
        return (try CSV<FirstRow>(string: text, delimiter: delimiter, loadColumns: false).header, false)
    }

    /// Whether the library may end a row here.
    private static func isLineEnd(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "\n"..."\r", "\u{85}", "\u{2028}", "\u{2029}": true
        default: false
        }
    }
}
