import Foundation
import MegatonCore

/// Checks the inputs that the user named, before any work begins.
///
/// Reads the first bytes of files, and so blocks shortly. Pipes are left to the reader, which cannot read them twice.
package struct InputCheck {
    private let selection: InputSelection

    /// Maximum number of first lines of a list that are examined.
    private static let examinedLines = 20

    package init(_ selection: InputSelection) { self.selection = selection }

    /// - Throws: `CLIError` for the first input that is missing, that is of another kind than its name or the options
    ///   say, or that is a table without the columns.
    package func run() throws {
        try InputReader.check(selection.arguments)
        try InputReader.check(selection.jobLists, of: "--jobs-from")
        try InputReader.check(selection.ledger.map { [$0] } ?? [], of: "--retry-failed")
        for argument in selection.arguments where argument != "-" {
            if PrefixReader.isPrefix(argument) { _ = try PrefixReader(argument) }
            let path = FileNames.localPath(argument)
            if InputReader.isURL(path) {
                try check(url: path)
            } else {
                try check(path, as: selection.listFormat(of: path))
            }
        }
        for path in selection.jobLists where path != "-" { try check(path, as: .jobs) }
    }

    /// Of lists, only sitemaps are read over the network. With a format in the options, a name does not count.
    ///
    /// - Throws: `CLIError` for a bucket without a slash, and for a URL with the name of a list or a compressed file.
    private func check(url text: String) throws {
        guard !selection.isRemote(text), let url = URL(string: text) else { return }
        let scheme = url.scheme?.lowercased() ?? ""
        if scheme == "s3", url.path().isEmpty, let bucket = url.host() {
            throw CLIError.usage("\(text) names no object: write s3://\(bucket)/ for all images of the bucket.")
        }
        guard selection.format == nil else { return }
        guard ["http", "https", "s3"].contains(scheme) else { return }
        let program = scheme == "s3" ? "aws s3 cp URL -" : "curl -s URL"
        let isCompressed = url.pathExtension.lowercased() == "gz"
        let name = isCompressed ? url.deletingPathExtension() : url
        let word = name.pathExtension.lowercased()
        if word == "parquet" { throw CLIError.usage("\(text) is \(FileKind.parquet.advice).") }
        if let format = ListFormat(word: word), format != .sitemap {
            let input = format == .jobs ? "--jobs-from -" : "- --input-format \(word)"
            throw CLIError.usage(
                "\(text) is \(format.description) by its name, and of lists only sitemaps are read from URLs: save it "
                    + "as a file, or pipe it: \(program) \(isCompressed ? "| gunzip " : "")| megaton run \(input)."
            )
        }
        if isCompressed {
            throw CLIError.usage(
                "\(text) is compressed by its name: save it as a file and unpack it first, or give --input-format "
                    + "sitemap if it is a sitemap."
            )
        }
    }

    private func check(_ path: String, as format: ListFormat?) throws {
        // A damaged image has a line in the ledger, as one in a directory has.
        let fileExtension = (path as NSString).pathExtension.lowercased()
        if format == nil && selection.fileExtensions.contains(fileExtension) { return }
        guard let bytes = try Self.firstBytes(of: path) else { return }
        if let kind = FileKind(bytes), !kind.isReadable(as: format) {
            throw CLIError.usage("\(path) is \(kind.advice).")
        }
        if format == .sources, let remark = remark(about: path, bytes) { Terminal.error("megaton: \(remark)") }
        guard case .table(let table) = format else { return }
        let descriptor = try InputReader.descriptor(of: path)
        defer { close(descriptor) }
        var reader = TableReader(
            LineReader(descriptor, name: path),
            table,
            selection.table,
            selection.requiredFields
        )
        try reader.checkHeader()
    }

    /// A remark on a list whose first lines name no source, such as a README.txt: the failures of its lines do not show
    /// that the file was taken for a list. Nil for any other list.
    private func remark(about path: String, _ bytes: [UInt8]) -> String? {
        let hasMark = bytes.starts(with: [0xEF, 0xBB, 0xBF])
        let lines = bytes.dropFirst(hasMark ? 3 : 0).split(separator: UInt8(ascii: "\n"))
        // The last one of a longer file is not whole.
        let whole = bytes.count < FileKind.examined ? lines[...] : lines.dropLast()
        let names = whole.prefix(Self.examinedLines).map {
            String(decoding: $0, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        }.filter { !$0.isEmpty && !$0.hasPrefix("#") && !$0.hasPrefix("{") }
        guard let first = names.first, !names.contains(where: mayBeSource) else { return nil }
        let none =
            names.count == 1 ? "its first line does not look" : "none of its first \(names.count) lines looks"
        return "\(path) is read as a list, with the URL or the path of an image on each line, and \(none) like one: "
            + "\(FieldProblem.quoted(first)). Leave the file out if it is no list."
    }

    private func mayBeSource(_ line: String) -> Bool {
        let fileExtension = (line as NSString).pathExtension.lowercased()
        return InputReader.isURL(line) || selection.fileExtensions.contains(fileExtension)
            || FileManager.default.fileExists(atPath: line)
    }

    /// Nil for a file that is not a regular one, which is not even opened: the writer of a named pipe would begin, and
    /// lose its reader a moment later.
    private static func firstBytes(of path: String) throws -> [UInt8]? {
        var info = stat()
        if stat(path, &info) == 0 && info.st_mode & S_IFMT != S_IFREG { return nil }
        let descriptor = try InputReader.descriptor(of: path)
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: FileKind.examined)
        let count = read(descriptor, &bytes, bytes.count)
        guard count >= 0 else {
            throw CLIError.usage("\(path) cannot be read: \(String(cString: strerror(errno))).")
        }
        return Array(bytes.prefix(count))
    }
}
