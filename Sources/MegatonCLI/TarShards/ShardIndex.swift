import Foundation

/// The index of a shard: a file of JSON beside it, by which readers reach a sample without reading the archive.
struct ShardIndex: Codable, Equatable {
    struct Member: Codable, Equatable, Sendable {
        var name: String
        /// Position of the content in the archive, bytes.
        var offset: Int
        /// Bytes of the content.
        var size: Int
        /// 64 hex digits.
        var sha256: String
    }

    struct Sample: Codable, Equatable, Sendable {
        /// Of the job.
        var id: String
        /// The members' names up to their first point.
        var key: String
        /// The renditions, and last the outcome.
        var members: [Member]
    }

    /// Name of the archive.
    var shard: String
    var samples: [Sample]
    var version = 1
}

/// Names of a directory's files.
enum ShardNames {
    static func archive(_ number: Int) -> String { "shard-\(digits(number)).tar" }
    static func index(_ number: Int) -> String { "shard-\(digits(number)).json" }
    /// The archive that is being written; a hidden name, so that no reader takes it for a whole one.
    static func partial(_ number: Int) -> String { ".shard-\(digits(number)).tar.partial" }
    static func partialIndex(_ number: Int) -> String { ".shard-\(digits(number)).json.partial" }
    /// The file that says with which renditions the shards were made; locked by their writer.
    static let manifest = ".megaton-shards.json"

    private static func digits(_ number: Int) -> String {
        String(repeating: "0", count: max(0, 6 - String(number).count)) + String(number)
    }

    /// The number of an archive, whole or partial; nil for any other file.
    static func number(_ name: String) -> (number: Int, isPartial: Bool)? {
        let isPartial = name.hasSuffix(".tar.partial")
        let digits = name.drop { $0 == "." }.dropFirst("shard-".count).prefix { $0.isNumber }
        guard let number = Int(digits), name == (isPartial ? partial(number) : archive(number)) else { return nil }
        return (number, isPartial)
    }
}
