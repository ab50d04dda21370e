internal import CCurl
internal import Foundation

/// libcurl's multi handle, with a thread of its own on which all transfers run.
///
/// libcurl says which sockets it waits for (`CURLMOPT_SOCKETFUNCTION`) and until when (`CURLMOPT_TIMERFUNCTION`), and
/// is called for ready sockets only: with `curl_multi_perform` each piece of one body costs a look at all transfers,
/// most of which wait for slow hosts.
///
/// `@unchecked Sendable`: `changes` and `poller` are set only with the lock held, and `poller` before the thread
/// begins; the rest is used only on the thread.
final class CurlMulti: @unchecked Sendable {
    /// Changes for the thread.
    private struct Changes {
        /// Transfers that wait for the thread. Bounded by the callers, each of which waits for its own transfer.
        var arrivals: [CurlTransfer] = []
        /// Whether a transfer was cancelled.
        var hasCancelled = false
        var isStopped = false
    }

    private let configuration: DataLoader.Configuration
    private let lock = NSLock()
    private var changes = Changes()
    /// Nil before the first transfer.
    private var poller: SocketPoller?
    private var transfers: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    /// Transfers with bytes that their callers have not received.
    private var buffered: [CurlTransfer] = []
    /// When libcurl has something to do although no socket is ready; nil if it has not.
    private var nextTimer: ContinuousClock.Instant?
    /// Number of transfers by FTP.
    private var ftpCount = 0
    /// When libcurl last looked at all transfers.
    private var lastLook = ContinuousClock.now
    private let activity = ConnectionActivity()

    /// Interval at which libcurl looks at all transfers, in case it has forgotten one: with FTP, libcurl 7.88 sets
    /// neither a socket nor a timer if the answer to EPSV is there at once, as on a connection that is used again.
    private var lookInterval: Duration {
        if transfers.isEmpty { return .seconds(60) }
        return ftpCount > 0 ? .milliseconds(20) : .seconds(1)
    }

    private static let globalInit: CURLcode = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    init(_ configuration: DataLoader.Configuration) { self.configuration = configuration }

    /// Hands a transfer to the thread, and starts it before the first one.
    func start(_ transfer: CurlTransfer) {
        transfer.wakeUp = { [weak self] in self?.update { $0.hasCancelled = true } }
        transfer.didBuffer = { [weak self] in self?.buffered.append($0) }
        if let fault = startThread() {
            // No host is to blame, and no attempt counts.
            let message = "This process can open no connection: \(fault)."
            return transfer.finish(ImageError(.throttled, message, retryAfter: 1))
        }
        let isAccepted = update { changes in
            if !changes.isStopped { changes.arrivals.append(transfer) }
            return !changes.isStopped
        }
        if !isAccepted { transfer.finish(ImageError(.cancelled, "The loader was stopped.")) }
    }

    /// Ends the thread; transfers in progress fail with `.cancelled`.
    func stop() { update { $0.isStopped = true } }

    /// Changes what the thread has to do, and wakes it.
    @discardableResult private func update<Result>(_ change: (inout Changes) -> Result) -> Result {
        let (result, poller) = lock.withLock { (change(&changes), self.poller) }
        poller?.wakeUp()
        return result
    }

    /// - Returns: the reason why there is no thread; nil if there is one, or if none is needed any more.
    private func startThread() -> String? {
        lock.withLock { () -> String? in
            if poller != nil || changes.isStopped { return nil }
            _ = Self.globalInit
            let new: SocketPoller
            do throws(POSIXError) {
                new = try SocketPoller()
            } catch {
                return CurlRequest.localFault(error.code.rawValue) ?? "\(error.code)"
            }
            guard let multi = curl_multi_init() else { return CurlRequest.localFault(ENOMEM) ?? "no memory" }
            poller = new
            configure(multi)
            // It holds this object, whose address the callbacks have, until they are called no longer. Only this thread
            // uses the handle, although its type is not Sendable.
            nonisolated(unsafe) let handle = multi
            KernelThread.start("megaton-curl", stackSize: 1 << 20) { [self] in run(handle, new) }
            return nil
        }
    }

    private func configure(_ multi: UnsafeMutableRawPointer) {
        megaton_curl_multi_setopt_long(multi, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX))
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, configuration.maximumHostConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, configuration.maximumConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, configuration.maximumConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, configuration.maximumConcurrentStreams)
        let context = Unmanaged.passUnretained(self).toOpaque()
        megaton_curl_multi_setopt_socket(
            multi,
            { _, socket, what, context, _ in
                guard let context, let poller = Unmanaged<CurlMulti>.fromOpaque(context).takeUnretainedValue().poller
                else { return 0 }
                if what == CURL_POLL_REMOVE {
                    poller.forget(socket)
                } else {
                    poller.watch(socket, reads: what & CURL_POLL_IN != 0, writes: what & CURL_POLL_OUT != 0)
                }
                return 0
            },
            context
        )
        megaton_curl_multi_setopt_timer(
            multi,
            { _, milliseconds, context in
                guard let context else { return 0 }
                let multi = Unmanaged<CurlMulti>.fromOpaque(context).takeUnretainedValue()
                multi.nextTimer = milliseconds < 0 ? nil : .now + .milliseconds(milliseconds)
                return 0
            },
            context
        )
    }

    // MARK: - On the thread

    private func run(_ multi: UnsafeMutableRawPointer, _ poller: SocketPoller) {
        var events: [SocketPoller.Event] = []
        while advance(multi, events) {
            let limits = [nextTimer, lastLook + lookInterval].compactMap { $0 }
            events = poller.wait(ContinuousClock.now.duration(to: limits.min() ?? .now))
        }
        for (easy, transfer) in transfers {
            curl_multi_remove_handle(multi, easy)
            transfer.finish(ImageError(.cancelled, "The loader was stopped."))
        }
        transfers = [:]
        curl_multi_cleanup(multi)
    }

    /// Does all that is due. In a function of its own, so that no variable holds a transfer that has begun and ended in
    /// it while the thread waits.
    ///
    /// - Returns: false if the loader was stopped.
    private func advance(_ multi: UnsafeMutableRawPointer, _ events: [SocketPoller.Event]) -> Bool {
        let changes = lock.withLock {
            defer { (self.changes.arrivals, self.changes.hasCancelled) = ([], false) }
            return self.changes
        }
        if changes.isStopped {
            for transfer in changes.arrivals { transfer.finish(ImageError(.cancelled, "The loader was stopped.")) }
            return false
        }
        for transfer in changes.arrivals { add(transfer, to: multi) }
        if changes.hasCancelled { removeCancelled(from: multi) }
        perform(multi, events)
        for transfer in buffered { transfer.deliver() }
        buffered.removeAll(keepingCapacity: true)
        collect(multi)
        return true
    }

    /// Lets libcurl go on with the sockets that are ready, and with work that is due.
    private func perform(_ multi: UnsafeMutableRawPointer, _ events: [SocketPoller.Event]) {
        var running: Int32 = 0
        for event in events {
            let readiness =
                (event.isReadable ? CURL_CSELECT_IN : 0) | (event.isWritable ? CURL_CSELECT_OUT : 0)
                | (event.hasEnded ? CURL_CSELECT_ERR : 0)
            // A socket that an earlier event has closed is unknown to libcurl by now, which ignores the call.
            curl_multi_socket_action(multi, event.socket, readiness, &running)
        }
        let now = ContinuousClock.now
        if lastLook.duration(to: now) >= lookInterval {
            lastLook = now
            megaton_curl_multi_socket_all(multi, &running)
        }
        if let nextTimer, nextTimer <= now {
            // A timer fires once: libcurl sets the next one in this call.
            self.nextTimer = nil
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running)
        }
    }

    /// Starts the next request of a transfer, unless it is cancelled.
    private func add(_ transfer: CurlTransfer, to multi: UnsafeMutableRawPointer) {
        guard !transfer.isCancelled else { return transfer.finish(nil) }
        do throws(ImageError) {
            let easy = try transfer.begin(activity)
            curl_multi_add_handle(multi, easy)
            transfers[easy] = transfer
            if transfer.isFTP { ftpCount += 1 }
        } catch {
            transfer.finish(error)
        }
    }

    private func removeCancelled(from multi: UnsafeMutableRawPointer) {
        for (easy, transfer) in transfers where transfer.isCancelled {
            remove(easy, from: multi)
            transfer.finish(nil)
        }
    }

    /// The transfer frees the handle itself, after this.
    private func remove(_ easy: UnsafeMutableRawPointer, from multi: UnsafeMutableRawPointer) {
        curl_multi_remove_handle(multi, easy)
        if transfers.removeValue(forKey: easy)?.isFTP == true { ftpCount -= 1 }
    }

    /// If the connection of a request that has timed out is silent, closes it after its last request, and lets requests
    /// without a connection open others.
    private func noteTimeout(_ request: CurlRequest) {
        guard let connection = request.connection, let sent = request.sent,
            activity.timedOut(connection, sent: sent, now: .now)
        else { return }
        for other in transfers.values.compactMap(\.curlRequest) where other.origin == request.origin {
            if other.connection === connection { other.setReuse(false) }
            if other.connection == nil { other.avoidOpenConnections() }
        }
    }

    private func collect(_ multi: UnsafeMutableRawPointer) {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            let result = message.pointee.data.result
            guard let transfer = transfers[easy] else { continue }
            remove(easy, from: multi)
            if result == CURLE_OPERATION_TIMEDOUT, let request = transfer.curlRequest { noteTimeout(request) }
            switch transfer.ended(result) {
            case .next: add(transfer, to: multi)
            case .finished(let error): transfer.finish(error)
            }
        }
    }
}
