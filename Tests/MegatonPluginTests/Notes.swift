import Synchronization

/// Values sent to an origin, in order.
final class Notes: Sendable {
    private let noted = Mutex<[String?]>([])

    var values: [String?] { noted.withLock { $0 } }

    func note(_ value: String?) { noted.withLock { $0.append(value) } }
}
