/// The first commands on every connection, sent in one round trip, and the check of their replies.
struct RedisGreeting {
    private enum Step {
        case authenticate
        case select
        case name
        case role
        case mode
    }

    private let steps: [(step: Step, command: RedisCommand)]
    private let place: String
    private let asksSentinels: Bool

    /// - Parameters:
    ///   - name: shown by CLIENT LIST: `megaton:<role>`.
    ///   - place: the server, for messages.
    init(_ configuration: RedisConfiguration, name: String, place: String) {
        var steps: [(step: Step, command: RedisCommand)] = []
        if let password = configuration.password {
            steps.append((.authenticate, Self.authentication(user: configuration.username, password: password)))
        }
        if configuration.database != 0 { steps.append((.select, ["SELECT", .int(configuration.database)])) }
        steps.append((.name, ["CLIENT", "SETNAME", .string(name)]))
        if configuration.requiresMaster { steps.append((.role, ["ROLE"])) }
        // Without arguments it changes nothing, and needs no permission to read settings.
        if configuration.requiresMaster, !configuration.acceptsClusterNode { steps.append((.mode, ["HELLO"])) }
        self.steps = steps
        self.place = place
        switch configuration.address {
        case .sentinel: asksSentinels = true
        case .tcp, .unix, .cluster: asksSentinels = false
        }
    }

    var commands: [RedisCommand] { steps.map(\.command) }

    /// - Throws: `.authentication` if a retry cannot succeed; `.notWritable` for a server that is not a master.
    func check(_ replies: [RedisValue]) throws(RedisError) {
        for ((step, _), reply) in zip(steps, replies) {
            switch (step, reply) {
            case (.role, _): try checkRole(reply)
            case (.mode, _): try checkMode(reply)
            // The name is only for people who read CLIENT LIST.
            case (.name, .error(let text)) where RedisError(reply: text).isCommandRefused: break
            case (.authenticate, .error(let text)): throw Self.authenticationError(text)
            case (.select, .error(let text)):
                let error = RedisError(reply: text)
                throw RedisError(error.code, "\(error.message). Does \(place) have this database?")
            case (_, .error(let text)): throw RedisError(reply: text)
            default: break
            }
        }
    }

    private func checkRole(_ reply: RedisValue) throws(RedisError) {
        if case .error(let text) = reply {
            // An ACL forbids ROLE, or the command was renamed: the role is unknown, which is no reason to refuse the
            // server.
            let error = RedisError(reply: text)
            if error.isCommandRefused { return }
            throw error
        }
        guard let answer = reply.array, let role = answer.first?.string, role != "master" else { return }
        throw RedisError(
            .notWritable,
            "The Redis at \(place) is \(Self.describe(role, answer: answer)). \(advice(role))"
        )
    }

    /// Without the other nodes, a client of one node can use the keys of its slots only.
    private func checkMode(_ reply: RedisValue) throws(RedisError) {
        // An error: the command is forbidden or unknown, so that the mode is unknown too.
        guard reply.dictionary["mode"] == "cluster" else { return }
        throw RedisError(
            .invalidConfiguration,
            "The Redis at \(place) is a node of a Redis Cluster. Use redis+cluster://host:port,host:port with the "
                + "addresses of some of its nodes (rediss+cluster:// for TLS)."
        )
    }

    private static func describe(_ role: String, answer: [RedisValue]) -> String {
        switch role {
        case "slave" where answer.count > 2:
            "a replica of \(answer[1].string ?? "?"):\(answer[2].string ?? "?") and accepts no writes"
        case "slave": "a replica and accepts no writes"
        case "sentinel": "a sentinel"
        default: "not a master but \"\(role)\""
        }
    }

    private func advice(_ role: String) -> String {
        if asksSentinels { return "A failover may be under way; the next attempt asks the sentinels again." }
        if role == "sentinel" { return "The URL of sentinels looks like redis-sentinel://host:26379/name." }
        return "Use the URL of the master, or that of its sentinels: redis-sentinel://host:26379/name."
    }

    // MARK: - AUTH, for Redis and for sentinels

    static func authentication(user: String?, password: String) -> RedisCommand {
        let user = user.map { [RedisArgument.string($0)] } ?? []
        return RedisCommand(["AUTH"] + user + [.string(password)])
    }

    /// Classifies an error reply to AUTH. An unknown error counts as permanent; a busy server (LOADING, BUSY) may
    /// accept AUTH later.
    static func authenticationError(_ text: String) -> RedisError {
        let error = RedisError(reply: text)
        guard error.code == .server else { return error }
        // "unknown command" quotes the arguments, which include the password.
        let harmless = text.prefix { $0 != "'" && $0 != "`" }
        return RedisError(.authentication, "Redis refused AUTH: \(harmless)")
    }
}
