/// Commands of a pipeline that go to one node together: one command, or a transaction from MULTI to EXEC.
struct ClusterUnit: Equatable {
    /// Positions of the commands in the pipeline.
    let range: Range<Int>
    /// The slot of the keys; nil if there are none in the whole pipeline.
    var slot: Int?
    /// Whether the server may wait before it replies.
    let isBlocking: Bool
    /// The node that has the keys already while their slot is migrated; for one attempt only.
    var askedNode: RedisEndpoint?
    /// Whether the node does not know the script.
    var needsScript = false

    /// Divides a pipeline. A command without keys goes where the command with keys before it goes, or else the first
    /// one behind it: a pipeline that stores something and publishes a message about it keeps its order, except while
    /// the slot is migrated.
    ///
    /// - Throws: `.crossSlot` if keys of one command, or of one transaction, are in different slots.
    static func units(of commands: [RedisCommand]) throws(RedisError) -> [ClusterUnit] {
        if commands.count == 1 { return [try unit(0..<1, commands)] }
        var units: [ClusterUnit] = []
        var index = 0
        while index < commands.count {
            var end = index + 1
            if CommandKeys.name(of: commands[index]) == "MULTI" {
                while end < commands.count, CommandKeys.name(of: commands[end - 1]) != "EXEC" { end += 1 }
            }
            units.append(try unit(index..<end, commands))
            index = end
        }
        var slot = units.lazy.compactMap(\.slot).first
        for index in units.indices {
            slot = units[index].slot ?? slot
            units[index].slot = slot
        }
        return units
    }

    private static func unit(_ range: Range<Int>, _ commands: [RedisCommand]) throws(RedisError) -> ClusterUnit {
        var first: (key: RedisArgument, slot: Int)?
        for command in commands[range] {
            guard let slot = try CommandKeys.slot(of: command), let key = CommandKeys.keys(of: command).first else {
                continue
            }
            if let first {
                try CommandKeys.check(key, against: first.key, first.slot, "a transaction")
            } else {
                first = (key, slot)
            }
        }
        let isBlocking = range.count == 1 && CommandKeys.isBlocking(commands[range.lowerBound])
        return ClusterUnit(range: range, slot: first?.slot, isBlocking: isBlocking)
    }
}
