import ArgumentParser
import Foundation
import MegatonCommandLine

/// Options that say how lists of inputs are read.
struct ListOptions: ParsableArguments {
    @Option(
        name: .customLong("input-format"),
        help: ArgumentHelp(
            "Format of standard input and of files that are not images by their name: "
                + "\(ListFormat.words.joined(separator: ", ")). By default the file extension decides, and standard "
                + "input is txt. With sitemap, http(s) URLs that are not images are sitemaps too; without the option, "
                + "those with a name such as sitemap….xml or sitemap….xml.gz.",
            valueName: "format"
        ),
        completion: .list(ListFormat.words)
    )
    var inputFormat: String?

    @Flag(
        name: [.long, .customShort("0")],
        help: "Names on standard input and in .txt lists end with a zero byte, as of find -print0."
    )
    var null = false

    @Option(
        name: .customLong("url-column"),
        help: ArgumentHelp(
            "Column of a CSV or TSV with the URLs or paths, by its name, or by its number from 1. By default the one "
                + "that is called url, image_url, image, src, source, link or path.",
            valueName: "column"
        )
    )
    var urlColumn: String?

    @Option(
        name: .customLong("id-column"),
        help: ArgumentHelp("Column of a CSV or TSV with the ids of the jobs.", valueName: "column")
    )
    var idColumn: String?

    @Option(
        name: .customLong("label-columns"),
        help: ArgumentHelp(
            "Columns of a CSV or TSV that are the labels of the jobs, separated by commas; \"\" for none. By default "
                + "all but those of the URLs and the ids.",
            valueName: "columns"
        )
    )
    var labelColumns: String?

    mutating func validate() throws {
        if let inputFormat, !ListFormat.words.contains(inputFormat) {
            throw ValidationError(
                "--input-format must be \(ListFormat.words.dropLast().joined(separator: ", ")) or "
                    + "\(ListFormat.words.last ?? ""), not \"\(inputFormat)\"."
            )
        }
        if null, let inputFormat, inputFormat != "txt", OptionOrigins.ranksAbove("--input-format", "--null") {
            null = false
        } else if null, let inputFormat, inputFormat != "txt", OptionOrigins.ranksAbove("--null", "--input-format") {
            self.inputFormat = nil
        }
        if null, let inputFormat, inputFormat != "txt" {
            throw ValidationError(
                "--null does not go with --input-format \(inputFormat): only the names of a txt list end with a zero "
                    + "byte."
            )
        }
        for (option, column) in [("--url-column", urlColumn), ("--id-column", idColumn)] where column?.isEmpty == true {
            throw ValidationError("\(option) is empty; it must be the name or the number of a column.")
        }
        if let labelColumns, !labelColumns.isEmpty, columns(labelColumns).contains("") {
            throw ValidationError(
                "--label-columns \"\(labelColumns)\" has an empty name; it must be names or numbers of columns "
                    + "separated by commas, or \"\" for none."
            )
        }
    }

    private func columns(_ text: String) -> [String] {
        text.isEmpty
            ? []
            : text.split(separator: ",", omittingEmptySubsequences: false).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
    }

    /// - Throws: `ValidationError` for an option that concerns none of the inputs.
    func refuseOptionsWithoutEffect(_ inputs: [String], _ selection: InputSelection) throws {
        let formats = inputs.compactMap { selection.listFormat(of: FileNames.localPath($0)) }
        let tableOptions = [
            ("--url-column", urlColumn), ("--id-column", idColumn), ("--label-columns", labelColumns),
        ].filter { !OptionOrigins.isConfigured($0.0) }
        if let (option, _) = tableOptions.first(where: { $0.1 != nil }), !formats.contains(where: \.isTable) {
            throw ValidationError(
                "\(option) has no effect: no input is a CSV or TSV. --input-format csv is for standard input, and for "
                    + "a file whose name does not end in .csv."
            )
        }
        if null && !formats.contains(.names) && !OptionOrigins.isConfigured("--null") {
            throw ValidationError("--null has no effect: no input is a .txt list or - for standard input.")
        }
    }

    func apply(to selection: inout InputSelection) {
        selection.format = inputFormat.flatMap(ListFormat.init)
        selection.isNullSeparated = null
        selection.table = TableOptions(
            urlColumn: urlColumn,
            idColumn: idColumn,
            labelColumns: labelColumns.map(columns)
        )
    }
}
