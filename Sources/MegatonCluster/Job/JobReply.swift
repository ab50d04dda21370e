internal import Foundation
internal import MegatonPipeline

/// Where the outcome of a job is sent, apart from the ledger of its batch: the field `reply` of a job. It names either
/// a list or a webhook.
///
/// It is for clients of other languages. A client in Swift iterates the outcomes of its batch.
package struct JobReply: Sendable, Hashable, Codable {
    /// Key of a list in the control Redis; nil for a webhook.
    package var list: String?
    /// Seconds after the last outcome for which the list is kept; an hour if nil.
    package var ttl: Int?
    /// URL to which the outcome is sent by HTTP; nil for a list.
    package var webhook: String?

    enum CodingKeys: String, CodingKey, CaseIterable {
        case list, ttl, webhook
    }

    package init(list: String, ttl: Int? = nil) {
        self.list = list
        self.ttl = ttl
    }

    package init(webhook: String) { self.webhook = webhook }

    /// - Throws: `DecodingError` with a sentence that names the field, its value and the allowed values.
    package init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        let fields = try decoder.fields(CodingKeys.self, isChecked: isChecked, allowed: Self.example)
        list = try fields.read(String.self, .list, allowed: Self.allowedLists)
        ttl = try fields.read(Int.self, .ttl, allowed: Self.allowedTTLs)
        webhook = try fields.read(String.self, .webhook, allowed: Self.allowedWebhooks)
        if !isChecked, let problem { throw problem.error(at: decoder.codingPath) }
    }

    /// Reads plain JSON; nil leaves it to the decoder, which names the problem.
    init?(_ reader: inout PlainJSONReader) {
        var (list, ttl, webhook): (String?, Int?, String?) = (nil, nil, nil)
        let isRead = reader.object { reader, name in
            switch name {
            case "list":
                list = reader.string()
                return list != nil
            case "ttl":
                ttl = reader.int()
                return ttl != nil
            case "webhook":
                webhook = reader.string()
                return webhook != nil
            default: return false
            }
        }
        guard isRead, (list == nil) != (webhook == nil) else { return nil }
        (self.list, self.ttl, self.webhook) = (list, ttl, webhook)
    }

    /// The first field whose value cannot be used; nil if there is none.
    var problem: FieldProblem? {
        if let webhook {
            if list != nil { return FieldProblem("webhook", "goes with no list: an outcome is sent to one of them") }
            if ttl != nil { return FieldProblem("ttl", "goes with a list only") }
            return Self.problem(ofWebhook: webhook)
        }
        guard let list else {
            return FieldProblem("list", "is missing, and so is webhook; allowed \(Self.allowedLists)")
        }
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

    /// - Returns: nil for the URL of one host, by HTTP or HTTPS. The coordinator has further rules.
    private static func problem(ofWebhook text: String) -> FieldProblem? {
        let size = text.utf8.count
        if !(1...maximumWebhookSize).contains(size) {
            return FieldProblem("webhook", "has \(size) bytes; allowed \(allowedWebhooks)")
        }
        let isPrintable = text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        let policy = URLPolicy(schemes: ["http", "https"])
        // The parsers of Foundation and libcurl must agree on the host, or the check would be of another one.
        guard isPrintable, let url = URL(string: text), (try? policy.check(url)) != nil else {
            return FieldProblem("webhook", "is \(FieldProblem.quoted(text)); allowed \(allowedWebhooks)")
        }
        return nil
    }

    /// Its text in the arguments of scripts, and in front of an entry of the outbox; a NUL can occur in no part.
    var target: String {
        if let webhook { return "\(Self.webhookMark)\0\(webhook)" }
        return "\(ttl ?? Self.defaultTTL)\0\(list ?? "")"
    }

    /// The first part of the target of a webhook, in the place of the time to live of a list; `removeReplies` knows it.
    static let webhookMark = "webhook"
    /// Maximum number of bytes of the URL of a webhook.
    static let maximumWebhookSize = 2048

    /// Maximum number of bytes of the key of a list.
    static let maximumKeySize = 256
    static let ttls = 1...(7 * 24 * 3600)
    static let defaultTTL = 3600
    /// Keys of queues and caches begin with this.
    private static let ownPrefix = "megaton:"

    static let example =
        #"an object such as {"list": "outcomes", "ttl": 3600} or {"webhook": "https://example.com/hook"}"#
    private static let allowedWebhooks =
        "are URLs with https: (or http:) of at most 2048 ASCII characters, without a user"
    private static let allowedLists = "are keys of 1 to 256 bytes without NUL that do not begin with megaton:"
    private static let allowedTTLs = "are whole numbers of seconds from 1 to 604800"
}

/// An entry of the outbox `replies`: the outcome of a job, and where it goes.
struct OutboxEntry: Sendable, Equatable {
    let reply: JobReply
    /// The text of the job's key.
    let job: String
    /// JSON.
    let outcome: Data

    /// Parses `<ttl>\0<list>\0<key of the job>\0<outcome>`, or `webhook\0<url>\0` and the same; nil for another form,
    /// which no script writes.
    init?(_ entry: Data) {
        let parts = entry.split(separator: 0, maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        let (kind, place) = (String(decoding: parts[0], as: UTF8.self), String(decoding: parts[1], as: UTF8.self))
        if kind == JobReply.webhookMark {
            reply = JobReply(webhook: place)
        } else {
            guard let ttl = Int(kind) else { return nil }
            reply = JobReply(list: place, ttl: ttl)
        }
        job = String(decoding: parts[2], as: UTF8.self)
        outcome = Data(parts[3])
        if reply.problem != nil { return nil }
    }
}
