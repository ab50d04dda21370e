import Foundation
import MegatonCluster

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

    /// The JSON, with sorted fields. An index may have a million samples, and the run waits for it at its end.
    func json() throws -> Data {
        var json = PlainJSON(capacity: 320 * samples.count + 64)
        json.open("{")
        json.name("samples")
        json.open("[")
        for sample in samples {
            json.next()
            sample.write(to: &json)
        }
        json.close("]")
        json.name("shard")
        json.string(shard)
        json.name("version")
        json.number(version)
        json.close("}")
        if json.isPlain { return json.data }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    /// Whether this can be the index of an archive: its name is right, and the archive ends behind its last sample.
    ///
    /// - Parameter size: of the archive, bytes.
    func fits(_ number: Int, size: Int) -> Bool {
        let members = samples.flatMap(\.members)
        guard version == 1, shard == ShardNames.archive(number), let last = members.last,
            members.allSatisfy({ $0.offset >= 0 && $0.size >= 0 && $0.offset <= size && $0.size <= size - $0.offset })
        else { return false }
        return TarHeader.padded(last.offset + last.size) + ShardScan.endBlocks * TarHeader.block == size
    }
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

    /// Maximum number of digits in a name.
    private static let longestNumber = 9

    private static func digits(_ number: Int) -> String {
        String(repeating: "0", count: max(0, 6 - String(number).count)) + String(number)
    }

    /// The number of an archive, whole or partial; nil for any other file.
    static func number(_ name: String) -> (number: Int, isPartial: Bool)? {
        let isPartial = name.hasSuffix(".tar.partial")
        let digits = name.drop { $0 == "." }.dropFirst("shard-".count).prefix { $0.isNumber }
        guard digits.count <= longestNumber, let number = Int(digits),
            name == (isPartial ? partial(number) : archive(number))
        else { return nil }
        return (number, isPartial)
    }
}

extension ShardIndex.Sample {
    fileprivate func write(to json: inout PlainJSON) {
        json.open("{")
        json.name("id")
        json.string(id)
        json.name("key")
        json.string(key)
        json.name("members")
        json.open("[")
        for member in members {
            json.next()
            json.open("{")
            json.name("name")
            json.string(member.name)
            json.name("offset")
            json.number(member.offset)
            json.name("sha256")
            json.string(member.sha256)
            json.name("size")
            json.number(member.size)
            json.close("}")
        }
        json.close("]")
        json.close("}")
    }
}
