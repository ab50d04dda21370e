/// Bound on the time for which the client of an upload may keep the server waiting: a number of seconds, and more for
/// each byte that has come. A client that sends a byte now and then would hold a place for as long as it likes.
///
/// Only the waits for the client count: the server reads no faster than Redis takes the jobs.
struct UploadPace: Sendable {
    /// Time that each upload has.
    let grace: Duration
    /// Bytes for which an upload has a second more.
    let bytesPerSecond: Int
    private var received = 0
    private var waited: Duration = .zero

    init(grace: Duration = .seconds(30), bytesPerSecond: Int = 1024) {
        self.grace = grace
        self.bytesPerSecond = bytesPerSecond
    }

    /// Counts bytes of the body, and the time in which they came.
    mutating func add(_ bytes: Int, within time: Duration) {
        received += bytes
        waited += time
    }

    /// Whether the client has sent less than it must have by now.
    var isTooSlow: Bool { waited > grace + .seconds(received / bytesPerSecond) }
}
