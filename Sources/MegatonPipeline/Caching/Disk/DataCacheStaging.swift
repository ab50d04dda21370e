internal import Foundation

/// What has been asked of a disk cache and is not on the disk yet, in the order in which it was asked; it is what readers
/// see first.
///
/// One change for each key at the most: a newer one takes the older one's place in the line, so that a key that is written
/// again and again neither fills the line nor waits for ever.
struct DataCacheStaging: Sendable {
    enum Change: Sendable {
        case store(Data)
        case remove

        /// Bytes, with something for what holds it: removals need a limit too.
        var cost: Int {
            switch self {
            case .store(let data): data.count + DataCacheStaging.overhead
            case .remove: DataCacheStaging.overhead
            }
        }
    }

    enum Work: Sendable {
        case change(DataCacheFileName, Change)
        case removeAll
    }

    /// Grows with each place in the line. What has one is done when that number is.
    typealias Ticket = Int

    private static let overhead = 256

    private var changes: [DataCacheFileName: (ticket: Ticket, change: Change)] = [:]
    /// A nil name is the removal of everything, which only comes first.
    private var line: [(ticket: Ticket, name: DataCacheFileName?)] = []
    /// What is before it has been taken.
    private var head = 0
    private var current: (ticket: Ticket, work: Work)?
    private var lastTicket: Ticket = 0
    private(set) var done: Ticket = 0
    /// Bytes held, what is being written included.
    private(set) var cost = 0

    /// What a reader is to see; nil where the disk tells.
    func change(for name: DataCacheFileName) -> Change? {
        // Whatever was asked before a removal of everything has left the line.
        if let pending = changes[name] { return pending.change }
        if head < line.count, line[head].name == nil { return .remove }
        switch current?.work {
        case .removeAll: return .remove
        case .change(name, let change): return change
        case .change, nil: return nil
        }
    }

    /// Whether a change would fit; a single one always does.
    func hasRoom(for change: Change, _ name: DataCacheFileName, limit: Int) -> Bool {
        let replaced = changes[name]?.change.cost ?? 0
        return cost == replaced || cost - replaced + change.cost <= limit
    }

    mutating func stage(_ change: Change, for name: DataCacheFileName) {
        cost += change.cost
        if let pending = changes[name] {
            cost -= pending.change.cost
            changes[name] = (pending.ticket, change)
        } else {
            changes[name] = (append(name), change)
        }
    }

    /// Hides everything that was there until now.
    mutating func stageRemoveAll() {
        cost = if case .change(_, let change) = current?.work { change.cost } else { 0 }
        changes = [:]
        line = []
        head = 0
        _ = append(nil)
    }

    /// Takes what is next; `finish` ends it. One at a time.
    mutating func next() -> Work? {
        guard head < line.count else {
            line.removeAll(keepingCapacity: true)
            head = 0
            return nil
        }
        let (ticket, name) = line[head]
        head += 1
        if head >= 64, head * 2 > line.count {
            line.removeFirst(head)
            head = 0
        }
        let work: Work
        if let name {
            guard let pending = changes.removeValue(forKey: name) else {
                preconditionFailure("a place without a change")
            }
            work = .change(name, pending.change)
        } else {
            work = .removeAll
        }
        current = (ticket, work)
        return work
    }

    mutating func finish() {
        guard let current else { return }
        if case .change(_, let change) = current.work { cost -= change.cost }
        done = current.ticket
        self.current = nil
    }

    /// When it is done, everything that has been asked until now is; nil where it already is.
    var pending: Ticket? { done < lastTicket ? lastTicket : nil }

    /// When it is done, what has been asked about a key is; nil where it already is.
    func pending(_ name: DataCacheFileName) -> Ticket? {
        if let pending = changes[name] { return pending.ticket }
        if head < line.count, line[head].name == nil { return line[head].ticket }
        switch current?.work {
        case .removeAll, .change(name, _): return current?.ticket
        case .change, nil: return nil
        }
    }

    private mutating func append(_ name: DataCacheFileName?) -> Ticket {
        lastTicket += 1
        line.append((lastTicket, name))
        return lastTicket
    }
}
