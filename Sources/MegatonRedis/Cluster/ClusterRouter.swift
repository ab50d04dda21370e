import Logging
import NIOCore

/// Runs the commands of one client on the nodes of a cluster.
///
/// Who decides what:
/// - ``HashSlot`` and ``CommandKeys``: the slot of a command; keys of two slots in one call are an error.
/// - ``ClusterUnit``: which commands of a pipeline stay together.
/// - ``ClusterTopology``: a value, the master of each slot. ``ClusterDiscovery`` asks the nodes for it.
/// - ``ClusterNodes``: the present topology and the connections, and when the topology is asked for again.
/// - `ClusterRouter`, this type: to which node each unit goes, whether and when it is sent again, and when that ends.
/// - `RedisServerClient`: the connection to one node. It does not wait for an unreachable node.
///
/// A unit is sent again only if no node has executed it: a node redirected it (MOVED, ASK), could not take it now
/// (TRYAGAIN, CLUSTERDOWN), did not know its script (NOSCRIPT), or was not reached at all. All of that ends with the
/// timeout of the call, and at once with a client that does not wait. A connection that breaks, or a reply that is
/// overdue, is an error of the call: it is unknown whether the command was executed.
final class ClusterRouter: RedisExecuting {
    /// Number of attempts without a delay, for redirects. Each move of a slot needs one; more are a disagreement of the
    /// nodes, which passes.
    private static let immediateAttempts = 5

    private let nodes: ClusterNodes

    /// - Parameters:
    ///   - name: shown by CLIENT LIST: `megaton:<role>`.
    ///   - waitsForReconnect: as of `RedisClient`.
    init(
        _ configuration: RedisConfiguration,
        name: String,
        group: any EventLoopGroup,
        logger: Logger,
        waitsForReconnect: Bool
    ) {
        nodes = ClusterNodes(
            configuration,
            name: name,
            group: group,
            logger: logger,
            waitsForReconnect: waitsForReconnect
        )
    }

    func connect(waiting limit: Duration) async throws(RedisError) {
        let deadline = ContinuousClock.now + limit
        while true {
            do throws(RedisError) {
                try await nodes.discover(before: .distantFuture)
                // A master that needs a password, or is about to fail over, is noticed here.
                if let master = nodes.master(of: nil) {
                    try await nodes.client(at: master).connect(waiting: .zero)
                }
                return
            } catch {
                guard error.isTransient, !Task.isCancelled, ContinuousClock.now < deadline else { throw error }
            }
        }
    }

    func failFast() { nodes.failFast() }

    func close() { nodes.close() }

    // MARK: - Commands

    func execute(
        _ commands: [RedisCommand],
        script: RedisScript?,
        timeout: Duration
    ) async throws(RedisError) -> [RedisValue] {
        if commands.count == 1, CommandKeys.name(of: commands[0]) == "SCAN" {
            return [try await scan(commands[0], timeout: timeout)]
        }
        var call = Call(
            commands: commands,
            script: script,
            timeout: TimeAmount(timeout),
            units: try ClusterUnit.units(of: commands)
        )
        while true {
            try await nodes.prepare(before: call.deadline)
            let (groups, orphans) = divide(call.units)
            call.begin(orphans)
            for (group, result) in await send(groups, of: call) { call.accept(result, of: group, nodes: nodes) }
            if let failure = call.failure { throw failure }
            if call.units.isEmpty { return call.replies }
            if await !pause(&call) { return try call.giveUp() }
        }
    }

    /// Units for one node.
    private struct Group {
        let node: RedisEndpoint
        var units: [ClusterUnit]
    }

    /// - Returns: the units for each node, and those whose slot no node serves.
    private func divide(_ units: [ClusterUnit]) -> (groups: [Group], orphans: [ClusterUnit]) {
        var (groups, orphans): ([Group], [ClusterUnit]) = ([], [])
        for unit in units {
            guard let node = unit.askedNode ?? nodes.master(of: unit.slot) else {
                orphans.append(unit)
                continue
            }
            if let index = groups.firstIndex(where: { $0.node == node }) {
                groups[index].units.append(unit)
            } else {
                groups.append(Group(node: node, units: [unit]))
            }
        }
        return (groups, orphans)
    }

    private typealias Answer = (group: Group, result: Result<[RedisValue], RedisError>)

    private func send(_ groups: [Group], of call: Call) async -> [Answer] {
        if groups.count == 1 { return [await send(groups[0], of: call)] }
        return await withTaskGroup(of: Answer.self) { tasks in
            for group in groups { tasks.addTask { await self.send(group, of: call) } }
            return await tasks.reduce(into: []) { $0.append($1) }
        }
    }

    private func send(_ group: Group, of call: Call) async -> Answer {
        let timeout = Duration.nanoseconds(max(0, (call.deadline - .now()).nanoseconds))
        do throws(RedisError) {
            let client = try nodes.client(at: group.node)
            return (group, .success(try await client.pipeline(call.commands(of: group), timeout: timeout)))
        } catch {
            return (group, .failure(error))
        }
    }

    /// Waits before the next attempt.
    ///
    /// - Returns: false if there is to be none.
    private func pause(_ call: inout Call) async -> Bool {
        if !call.needsDelay, call.attempts < Self.immediateAttempts {
            call.attempts += 1
            return true
        }
        nodes.refreshSoon()
        let delay = call.backoff.next(after: nil)
        guard nodes.waits, NIODeadline.now() + TimeAmount(delay) < call.deadline else { return false }
        do {
            try await Task.sleep(for: delay)
            return true
        } catch {
            return false  // Cancelled.
        }
    }
}

extension ClusterRouter {
    /// The state of one call: which units have no reply yet, and why.
    private struct Call {
        let commands: [RedisCommand]
        let script: RedisScript?
        let timeout: TimeAmount
        /// Units without a reply.
        var units: [ClusterUnit]
        var deadline: NIODeadline
        var replies: [RedisValue]
        /// An error after which it is unknown which commands were executed, or that no repetition cures.
        var failure: RedisError?
        /// Whether the reason for the next attempt takes some time to pass.
        var needsDelay = false
        /// Number of attempts without a delay.
        var attempts = 0
        /// How often the timeout has begun again.
        private var extensions = 0
        var backoff = Backoff(first: .milliseconds(20), cap: .milliseconds(500))
        /// The reason why commands were not sent.
        private var cause: RedisError?

        init(commands: [RedisCommand], script: RedisScript?, timeout: TimeAmount, units: [ClusterUnit]) {
            self.commands = commands
            self.script = script
            self.timeout = timeout
            self.units = units
            deadline = .now() + timeout
            replies = Array(repeating: .null, count: commands.count)
        }

        /// The commands of a group's units, with those that prepare the node for them.
        func commands(of group: Group) -> [RedisCommand] {
            var all: [RedisCommand] = []
            if let script, group.units.contains(where: \.needsScript) {
                all.append(["SCRIPT", "LOAD", .string(script.source)])
            }
            for unit in group.units {
                if unit.askedNode != nil { all.append(["ASKING"]) }
                all += commands[unit.range]
            }
            return all
        }

        /// Begins an attempt.
        ///
        /// - Parameter orphans: units whose slot no node serves.
        mutating func begin(_ orphans: [ClusterUnit]) {
            units = []
            cause = nil
            needsDelay = !orphans.isEmpty
            for unit in orphans {
                fill(unit, with: .error("CLUSTERDOWN Hash slot \(unit.slot ?? 0) is not served by any node"))
                units.append(unit)
            }
        }

        mutating func accept(_ result: Result<[RedisValue], RedisError>, of group: Group, nodes: ClusterNodes) {
            switch result {
            case .success(let all): accept(all, of: group, nodes: nodes)
            case .failure(let error) where Self.wasNotSent(error):
                nodes.refreshSoon()
                cause = error
                needsDelay = true
                units += group.units.map { unit in
                    var unit = unit
                    unit.askedNode = nil
                    return unit
                }
            case .failure(let error):
                nodes.refreshSoon()
                failure = failure ?? error
            }
        }

        /// Whether an error of a connection says that nothing was sent: it was not reached, or refused the greeting.
        private static func wasNotSent(_ error: RedisError) -> Bool {
            [.unreachable, .busy, .notWritable].contains(error.code)
        }

        private mutating func accept(_ all: [RedisValue], of group: Group, nodes: ClusterNodes) {
            var all = all[...]
            if script != nil, group.units.contains(where: \.needsScript) {
                if case .error(let text) = all.first { failure = failure ?? RedisError(reply: text) }
                all = all.dropFirst()
            }
            for unit in group.units {
                if unit.askedNode != nil { all = all.dropFirst() }
                let own = all.prefix(unit.range.count)
                all = all.dropFirst(unit.range.count)
                guard own.count == unit.range.count else {
                    failure = RedisError(.unexpectedReply, "A node of the Redis Cluster sent too few replies.")
                    return
                }
                for (index, reply) in zip(unit.range, own) { replies[index] = reply }
                if let again = repetition(of: unit, own, from: group.node, nodes: nodes) { units.append(again) }
            }
        }

        /// The unit as it is sent again; nil if its replies are final.
        private mutating func repetition(
            of unit: ClusterUnit,
            _ own: ArraySlice<RedisValue>,
            from node: RedisEndpoint,
            nodes: ClusterNodes
        ) -> ClusterUnit? {
            var again = unit
            again.askedNode = nil
            again.needsScript = false
            for case .error(let text) in own {
                if script != nil, text.hasPrefix("NOSCRIPT"), !unit.needsScript {
                    again.needsScript = true
                    again.askedNode = unit.askedNode
                    return again
                }
                guard let redirect = ClusterRedirect(text, from: node) else {
                    // E.g. UNBLOCKED: the node became a replica.
                    if RedisError(reply: text).code == .notWritable { nodes.refreshSoon() }
                    continue
                }
                switch redirect {
                case .moved(let slot, let target): nodes.move(slot, to: target)
                case .ask(let target): again.askedNode = target
                case .tryAgain, .down: needsDelay = true
                }
                // The server's own timeout begins again, too. Not for ever, though: a cluster may stay down.
                if unit.isBlocking, extensions < ClusterRouter.immediateAttempts {
                    extensions += 1
                    deadline = .now() + timeout
                }
                return again
            }
            return nil
        }

        /// Ends the call, although some units were not executed.
        ///
        /// - Returns: all replies, of which those of such units are the redirects that they received last.
        func giveUp() throws(RedisError) -> [RedisValue] {
            if let cause { throw cause }
            return replies
        }

        private mutating func fill(_ unit: ClusterUnit, with reply: RedisValue) {
            for index in unit.range { replies[index] = reply }
        }
    }
}

extension ClusterRouter {
    func executeOnMasters(
        _ command: RedisCommand,
        timeout: Duration
    ) async throws(RedisError) -> [(node: String?, reply: RedisValue)] {
        let deadline = NIODeadline.now() + TimeAmount(timeout)
        var backoff = Backoff(first: .milliseconds(20), cap: .milliseconds(500))
        while true {
            do throws(RedisError) {
                return try await askMasters(command, before: deadline)
            } catch {
                nodes.refreshSoon()
                // A replica may be about to take over. Such commands only read, so that they may be repeated.
                let delay = backoff.next(after: error)
                guard error.isTransient, nodes.waits, NIODeadline.now() + TimeAmount(delay) < deadline,
                    (try? await Task.sleep(for: delay)) != nil
                else { throw error }
            }
        }
    }

    private func askMasters(
        _ command: RedisCommand,
        before deadline: NIODeadline
    ) async throws(RedisError) -> [(node: String?, reply: RedisValue)] {
        try await nodes.prepare(before: deadline)
        var replies: [(node: String?, reply: RedisValue)] = []
        for master in nodes.masters {
            let timeout = Duration.nanoseconds(max(0, (deadline - .now()).nanoseconds))
            let own = try await nodes.client(at: master).pipeline([command], timeout: timeout)
            replies += own.map { (master.description, $0) }
        }
        return replies
    }

    /// Scans all masters, one after the other. The cursor that is returned names the node: `<cursor>@<node>`.
    ///
    /// Keys whose slot moves, and those of a master that joins meanwhile, may be missed, as SCAN of one server may miss
    /// keys that come meanwhile.
    ///
    /// - Throws: `.busy` if the node is no longer a master: its successor cannot continue with its cursor.
    private func scan(_ command: RedisCommand, timeout: Duration) async throws(RedisError) -> RedisValue {
        let deadline = NIODeadline.now() + TimeAmount(timeout)
        try await nodes.prepare(before: deadline)
        let masters = nodes.masters
        let given = command.arguments.count > 1 ? CommandKeys.text(command.arguments[1]) : "0"
        let parts = given.split(separator: "@", maxSplits: 1)
        let found = parts.count == 2 ? masters.firstIndex { $0.description == parts[1] } : masters.indices.first
        guard let index = found, let cursor = parts.first else {
            throw RedisError(
                .busy,
                "The node of a scan is no longer a master of the Redis Cluster; the scan has to begin again."
            )
        }
        var own = command
        if own.arguments.count > 1 { own.arguments[1] = .string(String(cursor)) }
        let replies: [RedisValue]
        do throws(RedisError) {
            replies = try await nodes.client(at: masters[index]).pipeline([own], timeout: timeout)
        } catch {
            nodes.refreshSoon()
            throw error
        }
        guard case .array(var fields) = replies.first ?? .null, fields.count == 2, let next = fields[0].string else {
            return replies.first ?? .null
        }
        if next != "0" {
            fields[0] = .status("\(next)@\(masters[index])")
        } else if index + 1 < masters.endIndex {
            fields[0] = .status("0@\(masters[index + 1])")
        }
        return .array(fields)
    }
}
