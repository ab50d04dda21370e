import Foundation
import MegatonCluster
import MegatonCore
import MegatonPipeline
import Synchronization

/// 128 bits of a SHA-256: a set of millions takes 16 bytes for each.
struct ShortDigest: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    /// - Parameter digest: at least 32 hex digits; others are treated as zero.
    init(hex digest: String) {
        high = UInt64(digest.prefix(16), radix: 16) ?? 0
        low = UInt64(digest.dropFirst(16).prefix(16), radix: 16) ?? 0
    }

    init(of text: String) { self.init(hex: Checksum.sha256(Data(text.utf8))) }

    init(of data: Data) { self.init(hex: Checksum.sha256(data)) }
}

/// The members of one job in a shard: its renditions, and last its line of the ledger.
struct ShardSample: Sendable {
    struct Member: Sendable {
        let name: String
        let data: Data
    }

    let id: String
    let key: String
    let members: [Member]

    /// Creates a sample.
    ///
    /// - Parameters:
    ///   - outcome: of a job that is done.
    ///   - line: the outcome as a line of the ledger, without its line end.
    ///   - data: the bytes of its outputs, in their order.
    init(_ outcome: JobOutcome, line: Data, data: [Data]) {
        id = outcome.id ?? ""
        key = Self.key(of: id)
        let names = Self.names(of: outcome)
        members =
            zip(names, data).map { Member(name: $0, data: $1) } + [Member(name: Self.lineName(of: key), data: line)]
    }

    /// Bytes in the archive, about.
    var size: Int { members.reduce(0) { $0 + 2 * TarHeader.block + $1.data.count } }

    /// The name of a job's members up to their first point, by which readers recognize a sample. An id with points,
    /// which cannot be such a name, has a hash in the place of what it loses.
    static func key(of id: String) -> String {
        guard id.contains(".") || id.isEmpty else { return id }
        return "\(id.replacingOccurrences(of: ".", with: "_"))-\(OutputTemplate.hash(id))"
    }

    /// Names of the renditions' members.
    static func names(of outcome: JobOutcome) -> [String] {
        let key = key(of: outcome.id ?? "")
        return outcome.outputs.map { name($0.name, $0.format, of: key, isOnly: outcome.outputs.count == 1) }
    }

    /// Name of the member with a rendition.
    ///
    /// - Parameter isOnly: whether the job has no other rendition.
    static func name(_ rendition: String, _ format: Rendition.Format, of key: String, isOnly: Bool) -> String {
        "\(key)\(isOnly ? "" : ".\(OutputTemplate.plain(rendition))").\(format.fileExtension)"
    }

    /// Why readers cannot tell the members of these renditions apart; nil if they can. The `webdataset` package reads
    /// names in lower case, and ends at two that are equal then.
    static func problem(of renditions: [Rendition]) -> String? {
        var names: [String: String] = [:]
        for rendition in renditions {
            let name = OutputTemplate.plain(rendition.name).lowercased()
            if let other = names.updateValue(rendition.name, forKey: name) {
                return "its renditions \(FieldProblem.quoted(other)) and \(FieldProblem.quoted(rendition.name)) have "
                    + "names that readers of shards do not distinguish"
            }
        }
        return nil
    }

    /// Name of the member with the outcome.
    static func lineName(of key: String) -> String { "\(key).json" }

    /// An id for a job that has none. Unlike a number it is the same in each run, whatever the other inputs are.
    ///
    /// - Parameters:
    ///   - path: of the source, for readers of a listing.
    ///   - identity: the text that distinguishes the job from others.
    static func id(path: String, identity: String) -> String {
        let file = path.pathComponents().last ?? "_"
        let stem = String(file.unicodeScalars.prefix(longestStem).map { isPlain($0) ? Character($0) : "_" })
        return "\(stem)-\(Checksum.sha256(Data(identity.utf8)).prefix(identityDigits))"
    }

    /// Whether an id is one that ``id(path:identity:)`` makes for a source without labels or options of its own.
    static func isMade(_ id: String, of source: String) -> Bool {
        id.hasSuffix("-\(Checksum.sha256(Data(source.utf8)).prefix(identityDigits))")
    }

    /// Whether an id looks like one that ``id(path:identity:)`` makes, whatever the source is.
    static func mayBeMade(_ id: String) -> Bool {
        let digits = id.suffix(identityDigits)
        return digits.count == identityDigits && id.dropLast(identityDigits).last == "-"
            && digits.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
    }

    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        scalar.isASCII && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil || scalar == "-")
    }

    private static let longestStem = 40
    /// 80 bits: two of ten million sources share them once in 20 billion runs.
    private static let identityDigits = 20
}

/// The samples of a directory of shards: those that are written, and those of the run.
final class KnownSamples: Sendable {
    private struct State {
        var written: Set<ShortDigest> = []
        var submitted: Set<ShortDigest> = []
        /// Work of the jobs that were left out as a shard has them; only if equal jobs are done once.
        var works: Set<ShortDigest> = []
        var skipped = 0
        var repeated = 0
    }

    private let state = Mutex(State())
    /// Digests of the sources of samples whose ids the caller has chosen, as far as they are known.
    private let sources = Mutex<[ShortDigest: ShortDigest]>([:])

    /// Maximum number of samples in one directory: about 40 bytes of memory each, and 60 more for an id of its own.
    static let limit = 20_000_000
    /// Number of samples up to which repeated inputs are counted apart from samples that a shard has: above, all count
    /// as the latter, as each of them would take memory once more.
    private static let comparedLimit = 2_000_000

    /// Adds a written sample.
    ///
    /// - Returns: false if it was written before.
    func insert(_ key: String) -> Bool { state.withLock { $0.written.insert(ShortDigest(of: key)).inserted } }

    func contains(_ key: String) -> Bool { state.withLock { $0.written.contains(ShortDigest(of: key)) } }

    var count: Int { state.withLock { $0.written.count } }

    /// Whether a job is to be submitted: neither a shard nor this run has it. Counts the others.
    ///
    /// - Parameters:
    ///   - isMade: whether its id was made here, so that an equal id is the same job.
    ///   - work: digest of its work if equal jobs are done once: one that a shard has is not submitted, so that the
    ///     queue cannot compare later ones with it. Nil otherwise.
    func admits(_ id: String, isMade: Bool, work: ShortDigest? = nil) -> Bool {
        let digest = ShortDigest(of: ShardSample.key(of: id))
        return state.withLock { state in
            if state.written.contains(digest) {
                // The second input of one id is a repeated one, in the run that writes the sample and in later ones.
                if isMade && state.written.count <= Self.comparedLimit && !state.submitted.insert(digest).inserted {
                    state.repeated += 1
                } else {
                    state.skipped += 1
                }
                if let work { state.works.insert(work) }
                return false
            }
            if let work, state.works.contains(work) {
                state.repeated += 1
                return false
            }
            guard isMade, !state.submitted.insert(digest).inserted else { return true }
            state.repeated += 1
            return false
        }
    }

    /// Remembers the source of a sample.
    ///
    /// - Parameter line: of the ledger, or of a shard; ignored if it is not that of a job that is done.
    func note(line: Data) {
        guard let job = DoneJob(line), job.status == .done, let id = job.id else {
            return
        }
        note(job.source, of: id)
    }

    /// Remembers the source of a sample, unless its id is made of it.
    func note(_ source: String, of id: String) {
        guard Self.isWhole(source), !ShardSample.isMade(id, of: source) else { return }
        sources.withLock { $0[ShortDigest(of: ShardSample.key(of: id))] = ShortDigest(of: source) }
    }

    /// Whether a shard has the sample of an id that the caller has chosen, and made it from another source.
    func hasOtherSource(than source: String, for id: String) -> Bool {
        let key = ShardSample.key(of: id)
        guard Self.isWhole(source), contains(key) else { return false }
        return sources.withLock { $0[ShortDigest(of: key)] }.map { $0 != ShortDigest(of: source) } ?? false
    }

    /// Whether an outcome has the whole source: others cannot be compared.
    private static func isWhole(_ source: String) -> Bool { source.utf8.count < JobOutcome.maximumSource }

    /// The fields of an outcome that are compared: the others take far more time to decode.
    private struct DoneJob: Decodable {
        let id: String?
        let source: String
        let status: JobOutcome.Status

        /// Nil if the line has not these fields.
        init?(_ line: Data) {
            if let outcome = JobOutcome(plainJSON: line) {
                (id, source, status) = (outcome.id, outcome.source, outcome.status)
                return
            }
            guard let fields = try? JSONDecoder().decode(Self.self, from: line) else { return nil }
            self = fields
        }
    }

    /// Jobs that were not submitted: those that the shards had, and repeated inputs.
    var leftOut: (skipped: Int, repeated: Int) { state.withLock { ($0.skipped, $0.repeated) } }
}
