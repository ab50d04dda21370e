internal import MegatonRedis

extension Doctor {
    /// Checks whether the data of Redis reaches its disk. A cache does not need that, but if Redis is configured to
    /// persist and cannot, it refuses writes.
    ///
    /// - Parameter node: the node of a cluster that `info` is about; nil for the only server.
    func persistence(
        of part: Part,
        info: String,
        at redis: RedisClient,
        _ node: String?
    ) async throws(RedisError) -> [Finding] {
        let subject = "\(part.rawValue): persistence"
        var findings: [Finding] = []
        func add(_ level: Finding.Level, _ message: String) {
            findings.append(Finding(level: level, subject: subject, message: message))
        }
        let isKept = InfoReply.number("aof_enabled", in: info) == 1
        let sync = try await isKept ? setting("appendfsync", of: redis, node) : nil
        if isKept && sync == nil && part == .control {
            findings.append(permission(of: part, to: ["config|get"], "appendfsync was not checked", at: redis))
        }
        if !isKept && part == .control {
            add(.warning, "appendonly is off: jobs are lost when this Redis stops. Set appendonly yes.")
        }
        if sync == "no" && part == .control {
            add(
                .warning,
                "appendfsync is no: if the machine stops, up to half a minute of jobs is lost. Set it to everysec."
            )
        }
        if isKept && Self.hasFailed("aof_last_write_status", in: info) {
            add(
                .error,
                "Redis cannot write its append-only file and refuses all writes. Is the disk full? See the log of "
                    + "Redis."
            )
        }
        if isKept && Self.hasFailed("aof_last_bgrewrite_status", in: info) {
            add(
                .warning,
                "the last rewrite of the append-only file failed, and the file grows. Is the disk full? See the log of "
                    + "Redis."
            )
        }
        if Self.hasFailed("rdb_last_bgsave_status", in: info) {
            add(
                .warning,
                "the last snapshot failed; with stop-writes-on-bgsave-error Redis refuses all writes. Is the disk or "
                    + "the memory full? See the log of Redis."
            )
        }
        if !findings.contains(where: { $0.subject == subject }) {
            add(.ok, isKept ? "appendonly is on" + (sync.map { ", appendfsync is \($0)" } ?? "") : "appendonly is off")
        }
        return findings
    }

    private static func hasFailed(_ field: String, in info: String) -> Bool {
        InfoReply.text(field, in: info).map { $0 != "ok" } ?? false
    }

    /// A setting of the server; nil if this user may not read it, as with many managed servers.
    private func setting(
        _ name: String,
        of redis: RedisClient,
        _ node: String?
    ) async throws(RedisError) -> String? {
        let replies = try await Self.readable { () async throws(RedisError) in
            try await redis.sendToMasters(["CONFIG", "GET", .string(name)])
        }
        return replies?.first { $0.node == node }?.reply.dictionary[name]
    }
}
