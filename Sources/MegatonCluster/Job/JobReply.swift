internal import Foundation
internal import MegatonPipeline

/// Where the outcome of a job is sent, apart from the ledger of its batch: the field `reply` of a job.
///
/// It is for clients of other languages. A client in Swift iterates the outcomes of its batch.
package struct JobReply: Sendable, Hashable, Codable {
    /// Key of a list in the control Redis.
    package var list: String
    /// Seconds after the last outcome for which the list is kept; an hour if nil.
    package var ttl: Int?

    enum CodingKeys: String, CodingKey, CaseIterable {
        case list, ttl
    }

    package init(list: String, ttl: Int? = nil) {
        self.list = list
        self.ttl = ttl
    }

    /// - Throws: `DecodingError` with a sentence that names the field, its value and the allowed values.
    package init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        let fields = try decoder.fields(CodingKeys.self, isChecked: isChecked, allowed: Self.example)
        guard let list = try fields.read(String.self, .list, allowed: Self.allowedLists) else {
            throw FieldProblem("list", "is missing; allowed \(Self.allowedLists)").error(at: decoder.codingPath)
        }
        self.init(list: list, ttl: try fields.read(Int.self, .ttl, allowed: Self.allowedTTLs))
        if !isChecked, let problem { throw problem.error(at: decoder.codingPath) }
    }

    /// Reads plain JSON; nil leaves it to the decoder, which names the problem.
    init?(_ reader: inout PlainJSONReader) {
        var list: String?
        var ttl: Int?
        let isRead = reader.object { reader, name in
            switch name {
            case "list":
                list = reader.string()
                return list != nil
            case "ttl":
                ttl = reader.int()
                return ttl != nil
            default: return false
            }
        }
        guard isRead, let list else { return nil }
        self.init(list: list, ttl: ttl)
    }

    /// The first field whose value cannot be used; nil if there is none.
    var problem: FieldProblem? {
        if !(1...Self.maximumKeySize).contains(list.utf8.count) {
            return FieldProblem("list", "has \(list.utf8.count) bytes; allowed \(Self.allowedLists)")
        }
        if list.hasPrefix(Self.ownPrefix) || list.utf8.contains(0) {
            return FieldProblem("list", "is \(FieldProblem.quoted(list)); allowed \(Self.allowedLists)")
        }
        if let ttl, !Self.ttls.contains(ttl) {
            return FieldProblem("ttl", "is \(ttl); allowed \(Self.allowedTTLs)")
        }
        return nil
    }

    /// Its text in the arguments of scripts, and in front of an entry of the outbox; a NUL can occur in no part.
    var target: String { "\(ttl ?? Self.defaultTTL)\0\(list)" }

    /// Maximum number of bytes of the key of a list.
    static let maximumKeySize = 256
    static let ttls = 1...(7 * 24 * 3600)
    static let defaultTTL = 3600
    /// Keys of queues and caches begin with this.
    private static let ownPrefix = "megaton:"

    static let example = #"an object such as {"list": "outcomes", "ttl": 3600}"#
    private static let allowedLists = "are keys of 1 to 256 bytes without NUL that do not begin with megaton:"
    private static let allowedTTLs = "are whole numbers of seconds from 1 to 604800"
}

/// An entry of the outbox `replies`: the outcome of a job, and where it goes.
struct OutboxEntry: Sendable, Equatable {
    /// Key of the list.
    let list: String
    /// Seconds after which the list expires.
    let ttl: Int
    /// The text of the job's key.
    let job: String
    /// JSON.
    let outcome: Data

    /// Parses `<ttl>\0<list>\0<key of the job>\0<outcome>`; nil for another form, which no script writes.
    init?(_ entry: Data) {
        let parts = entry.split(separator: 0, maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, let ttl = Int(String(decoding: parts[0], as: UTF8.self)),
            JobReply.ttls.contains(ttl)
        else { return nil }
        self.ttl = ttl
        list = String(decoding: parts[1], as: UTF8.self)
        job = String(decoding: parts[2], as: UTF8.self)
        outcome = Data(parts[3])
        if JobReply(list: list).problem != nil { return nil }
    }
}
