import ArgumentParser
import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonCore
import MegatonPipeline

/// Lists of renditions by name: those of a coordinator, or those that `run` and `submit` know themselves.
enum PresetFile {
    /// Maximum number of presets that a message names.
    private static let shown = 32

    /// The presets of a file.
    ///
    /// - Parameter preset: the value of `--preset`, which the file must have.
    /// - Throws: `CLIError` if the file cannot be read, has an invalid rendition, or lacks the preset.
    static func load(_ path: String, requiring preset: String? = nil) throws -> [String: [Rendition]] {
        let known = try read(path)
        guard let preset, known[preset] == nil else { return known }
        let names = known.keys.sorted()
        let near = Spelling.nearest(to: preset, among: names).map { " Did you mean \($0)?" } ?? ""
        let some = names.prefix(shown).joined(separator: ", ") + (names.count > shown ? ", …" : "")
        throw CLIError.usage(
            "--preset \(FieldProblem.quoted(preset)) is not in --presets \(path); "
                + (names.isEmpty ? "the file has no presets." : "its presets are \(some).") + near
        )
    }

    private static func read(_ path: String) throws -> [String: [Rendition]] {
        do {
            return try JSONDecoder().decode(Content.self, from: Data(contentsOf: URL(fileURLWithPath: path))).presets
        } catch {
            throw CLIError.usage(FieldProblem.sentence("--presets \(path) cannot be read: \(CLIError.reason(error))"))
        }
    }

    /// The content of a file. A list that no job may have is a fault of the file, as each job with it would fail.
    private struct Content: Decodable {
        let presets: [String: [Rendition]]

        private static let list = #"lists of renditions such as [{"name": "small", "width": 256}]"#

        init(from decoder: any Decoder) throws {
            guard let fields = try? decoder.container(keyedBy: AnyCodingKey.self) else {
                let value = FieldProblem.value(of: decoder)
                throw FieldProblem.error(
                    at: [],
                    "it is \(value); allowed is an object with \(Self.list) by their names"
                )
            }
            var presets: [String: [Rendition]] = [:]
            for key in fields.allKeys.sorted(by: { $0.stringValue < $1.stringValue }) {
                guard let list = try fields.read([Rendition].self, key, allowed: "are \(Self.list)") else {
                    throw FieldProblem.error(at: [key], "is null; allowed are \(Self.list)")
                }
                if let problem = Job.problem(of: list, in: FieldProblem.path([key])) { throw problem.error(at: []) }
                presets[key.stringValue] = list
            }
            self.presets = presets
        }
    }
}

/// The presets of a batch.
struct PresetOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Make the renditions of this preset, in the place of --size and other options of renditions: one of "
                + "--presets or, on a cluster, of the coordinator.",
            valueName: "name"
        )
    )
    var preset: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "JSON file with named lists of renditions, for --preset and for jobs with a preset: {\"web\": [{\"name\": "
                + "\"small\", \"width\": 256, …}]}. They go before those of the coordinator.",
            valueName: "file"
        ),
        completion: .file()
    )
    var presets: String?

    mutating func validate() throws {
        if presets?.isEmpty == true { throw ValidationError("--presets is empty; it must name a file.") }
        if preset?.isEmpty == true { throw ValidationError("--preset is empty; it must be the name of a preset.") }
    }

    /// The presets of the file; none without one.
    ///
    /// - Throws: `CLIError` if the file cannot be used or lacks the preset of `--preset`.
    func load() throws -> [String: [Rendition]] {
        guard let presets else { return [:] }
        var info = stat()
        // A pipe, as of <(…), is empty when it is read again.
        if stat(presets, &info) == 0, info.st_mode & S_IFMT != S_IFREG {
            throw CLIError.usage(
                "--presets \(presets) is not a regular file, but presets are read more than once. Save them to a file, "
                    + "and name that file."
            )
        }
        return try PresetFile.load(presets, requiring: preset)
    }
}
