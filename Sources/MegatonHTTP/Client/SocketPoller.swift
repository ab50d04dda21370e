internal import CCurl
internal import Foundation

/// Waits until some of many sockets are readable or writable, by epoll(7): the cost of a wait is that of the sockets
/// that are, while poll(2) looks at each of them every time.
///
/// All methods but ``wakeUp()`` are for one thread. The descriptors are closed with the last reference, so that no
/// other file can get the number of one that is still used.
final class SocketPoller: Sendable {
    /// A socket that is ready.
    struct Event {
        let socket: Int32
        let isReadable: Bool
        let isWritable: Bool
        /// Closed by the other side, or broken: a read says which.
        let hasEnded: Bool
    }

    private let poll: Int32
    private let wakeUpDescriptor: Int32

    /// Sockets that one wait reports: the next wait reports the others.
    private static let eventsAtOnce = 64

    /// - Throws: `POSIXError` if the process may open no further files.
    init() throws(POSIXError) {
        let poll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard poll >= 0 else { throw Self.error }
        let wakeUpDescriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard wakeUpDescriptor >= 0 else {
            let error = Self.error
            close(poll)
            throw error
        }
        (self.poll, self.wakeUpDescriptor) = (poll, wakeUpDescriptor)
        watch(wakeUpDescriptor, reads: true, writes: false)
    }

    deinit {
        close(poll)
        close(wakeUpDescriptor)
    }

    private static var error: POSIXError { POSIXError(POSIXErrorCode(rawValue: errno) ?? .EMFILE) }

    /// Ends the present wait, or the next one.
    func wakeUp() {
        // It fails only if it was woken 2^64 times since the last wait.
        eventfd_write(wakeUpDescriptor, 1)
    }

    /// Reports a socket from now on, also if it was watched for something else.
    func watch(_ socket: Int32, reads: Bool, writes: Bool) {
        var event = epoll_event()
        event.events = (reads ? EPOLLIN.rawValue : 0) | (writes ? EPOLLOUT.rawValue : 0)
        event.data.fd = socket
        // A socket that was closed unseen is forgotten, and its number may be that of another one.
        if epoll_ctl(poll, EPOLL_CTL_MOD, socket, &event) != 0 { epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event) }
    }

    func forget(_ socket: Int32) {
        // Fails if the socket is closed already, which is the same.
        epoll_ctl(poll, EPOLL_CTL_DEL, socket, nil)
    }

    /// Waits for sockets that are ready, a wake-up, or the end of a time.
    func wait(_ limit: Duration) -> [Event] {
        let milliseconds = Int32(clamping: Int((max(.zero, limit).inSeconds * 1000).rounded(.up)))
        return withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.eventsAtOnce) { events in
            let count = epoll_wait(poll, events.baseAddress, Int32(events.count), milliseconds)
            return events.prefix(Int(max(0, count))).compactMap { event in
                let socket = event.data.fd
                if socket == wakeUpDescriptor {
                    var value: eventfd_t = 0
                    eventfd_read(wakeUpDescriptor, &value)
                    return nil
                }
                func has(_ flag: EPOLL_EVENTS) -> Bool { event.events & flag.rawValue != 0 }
                return Event(
                    socket: socket,
                    isReadable: has(EPOLLIN),
                    isWritable: has(EPOLLOUT),
                    hasEnded: has(EPOLLERR) || has(EPOLLHUP)
                )
            }
        }
    }
}
