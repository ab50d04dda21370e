/// The nodes of a cluster and the master of each slot, as one node reported them. A value without I/O.
struct ClusterTopology: Sendable, Equatable {
    private static let none = UInt16.max

    /// All masters and replicas that serve slots; masters first.
    private(set) var nodes: [RedisEndpoint]
    /// Number of `nodes` that are masters.
    private var masterCount: Int
    /// For each slot, the index of its master in `nodes`.
    private var owners: [UInt16]

    /// The masters, each once.
    var masters: ArraySlice<RedisEndpoint> { nodes[..<masterCount] }

    /// The master of a slot; nil if no node serves it.
    func master(of slot: Int) -> RedisEndpoint? {
        owners[slot] == Self.none ? nil : nodes[Int(owners[slot])]
    }

    /// Number of slots that no node serves.
    var missingSlots: Int { owners.count { $0 == Self.none } }

    /// Reads the reply to CLUSTER SLOTS: ranges of slots, each with its master and its replicas.
    ///
    /// - Parameter asked: the node that replied. A node without a known address is meant to be at the same host.
    init(slots reply: RedisValue, from asked: RedisEndpoint) throws(RedisError) {
        if case .error(let text) = reply { throw RedisError(reply: text) }
        guard let ranges = reply.array else { throw Self.unexpected }
        var (masters, replicas): ([RedisEndpoint], [RedisEndpoint]) = ([], [])
        owners = Array(repeating: Self.none, count: HashSlot.count)
        for range in ranges {
            guard let fields = range.array, fields.count >= 3, let first = fields[0].int, let last = fields[1].int,
                (0..<HashSlot.count).contains(first), (first..<HashSlot.count).contains(last)
            else { throw Self.unexpected }
            let served = try fields[2...].map { node throws(RedisError) in try Self.endpoint(node, asked) }
            let index = masters.firstIndex(of: served[0]) ?? masters.count
            if index == masters.count { masters.append(served[0]) }
            for slot in first...last { owners[slot] = UInt16(index) }
            replicas += served.dropFirst().filter { !replicas.contains($0) }
        }
        nodes = masters + replicas.filter { !masters.contains($0) }
        masterCount = masters.count
    }

    /// Notes that a slot has another master, as a node has said in a MOVED error.
    mutating func move(_ slot: Int, to endpoint: RedisEndpoint) {
        guard owners.indices.contains(slot) else { return }
        if let index = masters.firstIndex(of: endpoint) {
            owners[slot] = UInt16(index)
            return
        }
        // A new master. The indices of the others stay; a replica that was promoted is no longer at its old index.
        nodes.removeAll { $0 == endpoint }
        nodes.insert(endpoint, at: masterCount)
        owners[slot] = UInt16(masterCount)
        masterCount += 1
    }

    private static func endpoint(_ node: RedisValue, _ asked: RedisEndpoint) throws(RedisError) -> RedisEndpoint {
        guard let fields = node.array, fields.count >= 2, let port = fields[1].int else { throw unexpected }
        return asked.sibling(host: fields[0].string ?? "", port: port)
    }

    private static let unexpected = RedisError(
        .unexpectedReply,
        "Redis replied to CLUSTER SLOTS with something else than ranges of slots."
    )
}

extension RedisEndpoint {
    /// Another node, as this one names it: without a host, or with `?`, it is at the host of this one.
    func sibling(host: String, port: Int) -> RedisEndpoint {
        if !host.isEmpty, host != "?" { return .tcp(host: host, port: port) }
        return switch self {
        case .tcp(let own, _): .tcp(host: own, port: port)
        case .unix: .tcp(host: "127.0.0.1", port: port)
        }
    }
}

/// An error reply by which a node of a cluster sends the command elsewhere. The command was not executed.
/// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#redirection-and-resharding
enum ClusterRedirect: Equatable {
    /// The slot has another master, from now on.
    case moved(slot: Int, to: RedisEndpoint)
    /// The slot is being migrated, and the keys are at the other node already; only this command goes there.
    case ask(RedisEndpoint)
    /// Some of the keys have been migrated and some not.
    case tryAgain
    /// The cluster, or the slot, has no master now.
    case down

    /// - Parameter asked: the node that replied.
    init?(_ text: String, from asked: RedisEndpoint) {
        let words = text.split(separator: " ", maxSplits: 3)
        switch words.first {
        case "TRYAGAIN": self = .tryAgain
        case "CLUSTERDOWN": self = .down
        case "MOVED", "ASK":
            // The host may be an IPv6 address without brackets.
            guard words.count >= 3, let slot = Int(words[1]), let colon = words[2].lastIndex(of: ":"),
                let port = Int(words[2][words[2].index(after: colon)...])
            else { return nil }
            let target = asked.sibling(host: String(words[2][..<colon]), port: port)
            self = words[0] == "ASK" ? .ask(target) : .moved(slot: slot, to: target)
        default: return nil
        }
    }
}
