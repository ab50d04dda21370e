internal import Foundation

/// Changes requested from a disk cache that are not on the disk yet, in the order of the requests. Readers look here
/// first.
///
/// There is at most one change per key. A newer one takes the older one's place in the queue, so that a key that is
/// written again and again neither fills the queue nor waits forever.
struct DataCacheStaging: Sendable {
    enum Change: Sendable {
        case store(Data)
        case remove
        /// Removes a damaged file, unless another one has replaced it.
        case removeDamaged(inode: UInt64)

        /// Bytes, with an allowance for bookkeeping, so that removals count against the limit too.
        var cost: Int {
            switch self {
            case .store(let data): data.count + DataCacheStaging.overhead
            case .remove, .removeDamaged: DataCacheStaging.overhead
            }
        }
    }

    enum Work: Sendable {
        case change(DataCacheFileName, Change)
        case removeAll
    }

    /// A position in the queue. Tickets grow, and a change is done when `done` has reached its ticket.
    typealias Ticket = Int

    private static let overhead = 256
    /// Number of changes that may wait at any limit.
    static let minimumCount = 1024

    private var changes: [DataCacheFileName: (ticket: Ticket, change: Change)] = [:]
    /// The queue. A nil name removes everything, and occurs only at the front.
    private var line: [(ticket: Ticket, name: DataCacheFileName?)] = []
    /// The index of the next change; those before it have been taken.
    private var head = 0
    private var current: (ticket: Ticket, work: Work)?
    private var lastTicket: Ticket = 0
    private(set) var done: Ticket = 0
    /// Bytes held, including those of the change that is being written.
    private(set) var cost = 0

    /// The state that a reader must see; nil if the disk is up to date.
    func change(for name: DataCacheFileName) -> Change? {
        // A removal of everything has dropped all changes requested before it, so that a pending change is newer.
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

    /// Whether more changes wait than the limit allows for removals, for which there always is room: the disk hangs.
    func hasTooMany(limit: Int) -> Bool { changes.count > max(Self.minimumCount, 2 * (limit / Self.overhead)) }

    mutating func stage(_ change: Change, for name: DataCacheFileName) {
        cost += change.cost
        if let pending = changes[name] {
            cost -= pending.change.cost
            changes[name] = (pending.ticket, change)
        } else {
            changes[name] = (append(name), change)
        }
    }

    /// Hides all earlier entries.
    mutating func stageRemoveAll() {
        cost = if case .change(_, let change) = current?.work { change.cost } else { 0 }
        changes = [:]
        line = []
        head = 0
        _ = append(nil)
    }

    /// Takes the next change; the caller must call `finish` before it takes another one.
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
                preconditionFailure("an entry without a change")
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

    /// The ticket after which all changes requested so far are done; nil if they already are.
    var pending: Ticket? { done < lastTicket ? lastTicket : nil }

    /// The ticket after which all changes requested for a key are done; nil if they already are.
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
