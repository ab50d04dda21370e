/// The directory that has all outputs of earlier lines, and whether the present run has to do with these lines: if not,
/// they are probably those of a run with that directory as its `--output`.
struct EarlierPlace: Sendable {
    /// Beneath the output directory, with a slash at its end; empty for the output directory itself, nil without
    /// outputs.
    private var directory: String?
    /// Hashes of sources of the lines.
    private var sources: Set<UInt32> = []
    /// Whether the present run has an output in the directory, or one of the sources.
    private var isInUse = false

    /// Maximum number of sources that are compared.
    private static let sourceLimit = 100_000

    /// Adds an output of a line.
    ///
    /// - Parameter name: beneath the output directory.
    mutating func add(_ name: String, ofSource source: String) {
        let parent = name.lastIndex(of: "/").map { name[...$0] } ?? ""
        directory = directory.map { Self.common($0, parent) } ?? String(parent)
        if sources.count < Self.sourceLimit { sources.insert(OutputIndex.hash(ofSource: source)) }
    }

    private static func common(_ one: String, _ other: Substring) -> String {
        if other.hasPrefix(one) { return one }
        let parts = zip(one.split(separator: "/"), other.split(separator: "/")).prefix { $0 == $1 }
        return parts.map { "\($0.0)/" }.joined()
    }

    /// Notes an output of the present run.
    mutating func note(output name: String) {
        if !isInUse, let directory { isInUse = name.hasPrefix(directory) }
    }

    /// Notes a source of the present run.
    mutating func note(source: String) {
        if !isInUse { isInUse = sources.contains(OutputIndex.hash(ofSource: source)) }
    }

    /// The directory, if it is none of the present run; otherwise nil.
    var foreign: String? { isInUse ? nil : directory.flatMap { $0.isEmpty ? nil : $0 } }
}
