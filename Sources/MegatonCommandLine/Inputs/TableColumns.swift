import Foundation
import MegatonCore

/// The options that name columns of CSV and TSV lists.
package struct TableOptions: Sendable, Equatable {
    /// Column of the sources, by its name or number; nil if the header shows it.
    package var urlColumn: String?
    /// Column of the ids; nil if the ids are made here.
    package var idColumn: String?
    /// Columns that become labels; nil for all that are neither sources nor ids.
    package var labelColumns: [String]?

    package init(urlColumn: String? = nil, idColumn: String? = nil, labelColumns: [String]? = nil) {
        self.urlColumn = urlColumn
        self.idColumn = idColumn
        self.labelColumns = labelColumns
    }
}

/// Columns of one CSV or TSV list, by its first record.
struct TableColumns: Equatable {
    /// Names of all columns, each different.
    let names: [String]
    let url: Int
    let id: Int?
    let labels: [Int]
    /// Whether the first record is a row, because the list has no header.
    let isFirstRecordRow: Bool

    /// Names of columns that are recognized as those of the sources, in lower case.
    static let knownNames: Set<String> = ["url", "image_url", "image", "src", "source", "link", "path"]

    /// Maximum number of columns that a message names.
    private static let shown = 20

    /// Chooses the columns.
    ///
    /// - Parameters:
    ///   - first: the first record that is not empty.
    ///   - list: name of the list, for messages.
    ///   - kind: kind of the list, for messages: "a CSV".
    ///   - isSource: whether a text looks like a source, and so cannot be a column's name.
    /// - Throws: `CLIError` that names the columns if an option names a column that the list does not have, or if the
    ///   column of the sources is not known.
    init(
        _ first: [String],
        _ options: TableOptions,
        list: String,
        kind: String,
        isSource: (String) -> Bool
    ) throws {
        let header = first.map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
        let numbered = options.urlColumn.flatMap { Finder.index($0, of: header) }
        let isRow = numbered.map { isSource(header[$0]) } ?? false
        let finder = Finder(header: header, isRow: isRow, list: list, kind: kind)
        url = try finder.urlColumn(options)
        isFirstRecordRow = isRow
        id = try options.idColumn.map { try finder.column($0, "--id-column") }
        if let chosen = options.labelColumns {
            labels = Array(Set(try chosen.map { try finder.column($0, "--label-columns") })).sorted()
        } else {
            let (url, id) = (url, id)
            labels = header.indices.filter { $0 != url && $0 != id }
        }
        names = Self.unique(isFirstRecordRow ? header.map { _ in "" } : header)
    }

    /// Names for labels: a column without a name is called by its number, and a name that occurs twice gets one.
    private static func unique(_ header: [String]) -> [String] {
        var used = Set(header)
        var seen: Set<String> = []
        return header.enumerated().map { index, name in
            if !name.isEmpty && seen.insert(name).inserted { return name }
            var unique = name.isEmpty ? "column \(index + 1)" : "\(name) (column \(index + 1))"
            // Another column may have that very name.
            while !used.insert(unique).inserted { unique += "'" }
            return unique
        }
    }

    /// Finds columns by their names and numbers.
    private struct Finder {
        let header: [String]
        /// Whether the texts are fields of a row, and no names.
        let isRow: Bool
        let list: String
        let kind: String

        /// The index of a column whose number from 1 is the text; nil if no column has it.
        static func index(_ text: String, of header: [String]) -> Int? {
            guard let number = Int(text), number > 0, number <= header.count else { return nil }
            return number - 1
        }

        private var description: String {
            let names = header.prefix(TableColumns.shown).map { name in
                name.isEmpty ? "(no name)" : String(FieldProblem.quoted(name).dropFirst().dropLast())
            }
            let more = header.count > names.count ? " and \(header.count - names.count) more" : ""
            let noun = header.count == 1 ? "the column" : "the columns"
            return "\(list) is \(kind) with \(noun) \(names.joined(separator: ", "))\(more)"
        }

        func urlColumn(_ options: TableOptions) throws -> Int {
            if let name = options.urlColumn { return try column(name, "--url-column") }
            let known = header.indices.filter { TableColumns.knownNames.contains(header[$0].lowercased()) }
            if let first = known.first, known.count == 1 { return first }
            if header.count == 1, header[0].contains("\t") {
                throw CLIError.usage(
                    "\(description), and its fields are separated by tabs. Give --input-format tsv, or a name that "
                        + "ends in .tsv."
                )
            }
            throw CLIError.usage(
                "\(description): name the one with the URLs with --url-column, or give its number if the first line "
                    + "is not a header."
            )
        }

        /// A column by its name, in any case if it is not ambiguous, or by its number from 1.
        func column(_ text: String, _ option: String) throws -> Int {
            let number = Self.index(text, of: header)
            // A field of a row may be the same number by chance.
            if isRow, let number { return number }
            for isSame in [{ $0 == text }, { $0.lowercased() == text.lowercased() }] as [(String) -> Bool] {
                let found = header.indices.filter { isSame(header[$0]) }
                if found.count == 1 { return found[0] }
                if found.count > 1 {
                    throw CLIError.usage(
                        "\(description): \(found.count) of them are called \(FieldProblem.quoted(text)), so that "
                            + "\(option) must be the number of one: "
                            + "\(found.prefix(TableColumns.shown).map { String($0 + 1) }.joined(separator: ", "))."
                    )
                }
            }
            if let number { return number }
            let near = Spelling.nearest(to: text, among: header).map { " Did you mean \(FieldProblem.quoted($0))?" }
            throw CLIError.usage(
                "\(description): \(option) \(FieldProblem.quoted(text)) is none of them.\(near ?? "")"
            )
        }
    }
}
