import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline

/// Names of the outputs below the output directory: the template of `--name`.
///
/// The client replaces the placeholders of sources and jobs; those of renditions stay for the worker.
struct OutputNames: Sendable {
    private let parts: [OutputTemplate.Part]

    /// - Throws: `JobError` that names the fault of the template.
    init(_ text: String) throws(JobError) {
        if text.isEmpty { throw JobError("--name is empty; it must be a template such as {path}/{stem}-{name}.{ext}") }
        if text.hasPrefix("/") {
            throw JobError("--name \(text) begins with a slash: it names files below the directory of --output")
        }
        if text.hasSuffix("/") { throw JobError("--name \(text) ends with a slash: it must name files") }
        if text.utf8.contains(0) { throw JobError("--name has a NUL") }
        parts = try OutputTemplate.Part.parts(of: text[...], in: "--name")
    }

    /// Fields that jobs must have.
    var requiredFields: RequiredFields {
        RequiredFields(labels: parts.labels, id: parts.contains(.placeholder(.id)))
    }

    /// The format that the end of each name shows, and the end itself, such as `.png`; nil if it shows none.
    var format: (format: Rendition.Format, ending: String)? {
        guard case .text(let text) = parts.last(where: { $0 != .text("") }) else { return nil }
        return Self.imageFormat(of: text)
    }

    /// The format of an image by the end of its name, with this end, such as `.png`; nil if it shows no format.
    static func imageFormat(of name: String) -> (format: Rendition.Format, ending: String)? {
        guard let dot = name.lastIndex(of: ".") else { return nil }
        let word = name[dot...].dropFirst().lowercased()
        let format = ["jpg", "jpe", "jfif"].contains(word) ? Rendition.Format.jpeg : Rendition.Format(rawValue: word)
        return format.map { ($0, String(name[dot...])) }
    }

    /// Whether each of the renditions has a name of its own, as far as that is known before they are made.
    func distinguishes(_ renditions: [Rendition]) -> Bool { parts.distinguishes(renditions) }

    /// Whether sources may have names of their own.
    var dependsOnSource: Bool { parts.dependsOnSource }

    /// The end of an output template, percent-encoded, with the placeholders of renditions.
    ///
    /// - Parameters:
    ///   - path: of the source's outputs, as they are named without a template.
    ///   - job: with id and labels.
    ///   - hasOwnID: whether its id is the same in each run, and not made of the batch's name.
    /// - Throws: `JobError` if the job does not have a label of the template, or no id of its own for it.
    func template(_ path: String, for job: Job, hasOwnID: Bool) throws(JobError) -> String {
        let url = OutputTemplate.isDataURL(job.source) ? nil : URL(string: job.source)
        var components = path.pathComponents()
        let stem = components.popLast() ?? "_"
        // The path begins with the host, which has a placeholder of its own; that of an object below a prefix does not.
        if let url, Self.isRemote(url), OutputPath.of(url).pathComponents().count == components.count + 1 {
            components = Array(components.dropFirst())
        }
        var text = ""
        for part in parts {
            switch part {
            case .text(let plain): text += FileNames.encoded(plain)
            case .placeholder(let placeholder) where placeholder.isOfRendition: text += placeholder.written
            case .placeholder(.path): text += FileNames.encoded(components.joined(separator: "/"))
            case .placeholder(.stem): text += FileNames.encoded(String(stem))
            case .placeholder(.host): text += FileNames.encoded(OutputTemplate.host(of: url))
            case .placeholder(.id):
                // The next run would write other files, and leave these.
                guard hasOwnID, let id = job.id else {
                    throw JobError(
                        "it has no id of its own, which {id} of --name needs: give --id-column for a table, or an id "
                            + "to each job of a .jsonl file, or write {hash}"
                    )
                }
                text += FileNames.encoded(OutputTemplate.plain(id))
            case .placeholder(.label(let label)):
                guard let value = job.labels?[label] else {
                    let name = FieldProblem.quoted(label)
                    throw JobError("it has no label \(name), which --name needs; .jsonl files and tables have labels")
                }
                text += FileNames.encoded(OutputTemplate.plain(value.text))
            case .placeholder: text += OutputTemplate.hash(job.source)
            }
        }
        // A file named `...` has the stem `..`, and a source in the named directory has an empty path.
        return text.pathComponents().map { $0 == ".." || $0 == "." ? "_" : $0 }.joined(separator: "/")
    }

    private static func isRemote(_ url: URL) -> Bool {
        guard let scheme = url.scheme?.lowercased() else { return false }
        return ["http", "https", "s3", "ftp"].contains(scheme)
    }

    /// A name with a hash of its source, for a source whose name another one has: in its last component, before the
    /// rendition's part or the extension.
    static func adding(_ hash: String, to name: String) -> String {
        let start = name.lastIndex(of: "/").map { name.index(after: $0) } ?? name.startIndex
        let file = name[start...]
        let dot = file.lastIndex(of: ".").flatMap { $0 == file.startIndex ? nil : $0 }
        var end = file.firstIndex(of: "{") ?? dot ?? file.endIndex
        while end > start, "-_.".contains(file[file.index(before: end)]) { end = file.index(before: end) }
        let head = file[..<end]
        return String(name[..<start]) + (head.isEmpty ? "\(hash)-" : "\(head)-\(hash)") + file[end...]
    }
}

extension BatchOptions {
    /// Fields that `--name` needs; none for an invalid template, which `checkName` reports.
    var fieldsOfNames: RequiredFields { name.flatMap { try? OutputNames($0) }?.requiredFields ?? RequiredFields() }

    /// Checks `--name` and `--output` against each other, the inputs and the renditions.
    ///
    /// - Throws: `ValidationError` if the names cannot be used.
    func checkName(output: String?) throws {
        if let output {
            try Self.requireNoPlaceholder(in: output)
            try Self.requireDirectoryName(output)
        }
        guard let name else { return }
        if output == nil {
            throw ValidationError("--name needs --output: it names the files below that directory.")
        }
        let names: OutputNames
        do throws(JobError) { names = try OutputNames(name) } catch { throw ValidationError("\(error.message).") }
        let wanted = try renditions.renditions()
        guard names.distinguishes(wanted) else {
            throw ValidationError(
                "--name \(name) is the same name for several of the \(wanted.count) renditions; add {name} to it."
            )
        }
        if hasOnlyTheseRenditions, let shown = names.format,
            let other = wanted.first(where: { $0.format != shown.format })
        {
            throw ValidationError(
                "--name \(name) ends with \(shown.ending), and the format of \(other.name) is "
                    + "\(other.format.rawValue). Write {ext} for the extension of the format, or give --format "
                    + "\(shown.format.rawValue)."
            )
        }
        if !names.dependsOnSource && !hasOneSource {
            throw ValidationError(
                "--name \(name) is the same name for all sources; add {stem}, {path}, {hash} or {id} to it."
            )
        }
    }

    /// Whether all jobs have the renditions of the options: none of a preset, and none of its own.
    private var hasOnlyTheseRenditions: Bool {
        let selection = selection(output: nil)
        let lists = inputs.map { selection.listFormat(of: FileNames.localPath($0)) }
        return presets.preset == nil && jobsFrom.isEmpty && retryFailed == nil && !lists.contains(.jobs)
    }

    /// Whether the inputs are one source: a single file or URL.
    private var hasOneSource: Bool {
        guard inputs.count == 1, let input = inputs.first, jobsFrom.isEmpty, retryFailed == nil, input != "-" else {
            return false
        }
        let path = FileNames.localPath(input)
        let selection = selection(output: nil)
        // A sitemap, or a bucket with a prefix.
        if selection.isRemote(input) { return false }
        if InputReader.isURL(path) { return true }
        var isDirectory: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
        return selection.listFormat(of: path) == nil && !(exists && isDirectory.boolValue)
    }

    /// - Throws: `ValidationError` for a directory that is not there and has the name of a file: other tools write one
    ///   image or one archive there.
    private static func requireDirectoryName(_ output: String) throws {
        let isArchive = output.lowercased().hasSuffix(".tar")
        var isDirectory: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: output, isDirectory: &isDirectory)
        guard isArchive || OutputNames.imageFormat(of: output) != nil, !InputReader.isURL(output),
            !(exists && isDirectory.boolValue)
        else { return }
        let advice =
            isArchive
            ? "Shards are written to a directory: --output tar:DIR."
            : "Give a directory, and the names in it by --name '{stem}.{ext}'."
        throw ValidationError(
            "--output \(output) names a directory, and looks like the name of a file. \(advice) A directory of this "
                + "name is used if it exists."
        )
    }

    /// - Throws: `ValidationError` for a directory that has a placeholder in its name and does not exist.
    private static func requireNoPlaceholder(in output: String) throws {
        let found = output.split(separator: "{", omittingEmptySubsequences: false).dropFirst().compactMap { piece in
            piece.firstIndex(of: "}").flatMap { OutputTemplate.Placeholder(piece[..<$0]) }
        }
        guard let first = found.first, !FileManager.default.fileExists(atPath: output) else { return }
        throw ValidationError(
            "--output \(output) names a directory, in which \(first.written) has no meaning. Names with placeholders "
                + "are for --name: --output DIR --name '{path}/{stem}-{name}.{ext}'."
        )
    }
}
