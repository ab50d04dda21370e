internal import MegatonRedis

/// The reply of the script `beginFlight` for one key; its contract is above the script.
enum FlightReply {
    /// An entry, and the time for which it is still fresh.
    case hit(milliseconds: Int, header: RedisValue, first: RedisValue)
    /// The same, if the caller has a copy of its bytes.
    case same(milliseconds: Int, header: RedisValue)
    /// A failure. The caller has waited for a shared one.
    case failed(RedisValue, millisecondsLeft: Int, isShared: Bool, old: StaleEntry?)
    case wait(milliseconds: Int, token: Int?, old: StaleEntry?)
    case uncacheable(token: Int?)
    case lead(token: Int?, old: StaleEntry?)

    /// An entry that became stale this many milliseconds ago.
    struct StaleEntry {
        let milliseconds: Int
        let header: RedisValue
        let first: RedisValue

        /// - Parameter fields: the last fields of a reply, none if there is no stale entry.
        fileprivate init?(_ fields: ArraySlice<RedisValue>) {
            guard fields.count == 3, let milliseconds = fields.first else { return nil }
            self.milliseconds = max(0, milliseconds.int ?? 0)
            header = fields[fields.startIndex + 1]
            first = fields[fields.startIndex + 2]
        }
    }

    /// - Throws: `RedisError` of the script, or `.unexpectedReply`.
    init(_ value: RedisValue) throws(RedisError) {
        if case .error(let text) = value { throw RedisError(reply: text) }
        guard let fields = value.array, let word = fields.first?.string else {
            throw RedisError(.unexpectedReply, "The script beginFlight returned an unexpected reply.")
        }
        switch (word, fields.count) {
        case ("hit", 4): self = .hit(milliseconds: fields[1].int ?? 0, header: fields[2], first: fields[3])
        case ("same", 3): self = .same(milliseconds: fields[1].int ?? 0, header: fields[2])
        case ("failed", 3), ("failed", 6), ("shared", 3), ("shared", 6):
            self = .failed(
                fields[1],
                millisecondsLeft: fields[2].int ?? 0,
                isShared: word == "shared",
                old: StaleEntry(fields.dropFirst(3))
            )
        case ("wait", 3), ("wait", 6):
            self = .wait(
                milliseconds: max(0, fields[1].int ?? 0),
                token: fields[2].int,
                old: StaleEntry(fields.dropFirst(3))
            )
        case ("uncacheable", 2): self = .uncacheable(token: fields[1].int)
        case ("lead", 2), ("lead", 5): self = .lead(token: fields[1].int, old: StaleEntry(fields.dropFirst(2)))
        default: throw RedisError(.unexpectedReply, "The script beginFlight returned the unexpected reply \"\(word)\".")
        }
    }
}
