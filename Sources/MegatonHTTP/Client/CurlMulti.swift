internal import CCurl
internal import Foundation

/// libcurl's multi handle, with a thread of its own on which all transfers run.
///
/// libcurl says which sockets it waits for (`CURLMOPT_SOCKETFUNCTION`) and until when (`CURLMOPT_TIMERFUNCTION`), and is
/// called for the sockets with news only: with `curl_multi_perform` each piece of one body costs a look at all transfers,
/// most of which wait for slow hosts.
///
/// `@unchecked Sendable`: `news` is used only with the lock held, the rest only on the thread, except for `poller`.
final class CurlMulti: @unchecked Sendable {
    /// Changes for the thread.
    private struct News {
        /// Transfers that wait for the thread. Bounded by the callers, each of which waits for its own transfer.
        var arrivals: [CurlTransfer] = []
        /// Whether a transfer was cancelled.
        var hasCancelled = false
        var isStopped = false
    }

    private var news = News()
    private let lock = NSLock()
    private let multi: UnsafeMutableRawPointer?
    /// Nil if the process may open no further files.
    private let poller: SocketPoller?
    private var transfers: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    /// Transfers with bytes that their callers have not received.
    private var buffered: [CurlTransfer] = []
    /// When libcurl has something to do without news of a socket; nil if it has not.
    private var nextTimer: ContinuousClock.Instant?
    private let activity = ConnectionActivity()

    /// Number of transfers by FTP.
    private var ftpCount = 0
    /// When libcurl last looked at all transfers.
    private var lastLook = ContinuousClock.now

    /// Interval at which libcurl looks at all transfers, in case that it has forgotten one: with FTP, libcurl 7.88 sets
    /// neither a socket nor a timer if the answer to EPSV is there at once, as on a connection that is used again.
    private var lookInterval: Duration { ftpCount > 0 ? .milliseconds(20) : .seconds(1) }

    private static let globalInit: CURLcode = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

    init(_ configuration: DataLoader.Configuration) {
        _ = Self.globalInit
        multi = curl_multi_init()
        poller = try? SocketPoller()
        guard let multi, poller != nil else { return }
        megaton_curl_multi_setopt_long(multi, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX))
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_HOST_CONNECTIONS, configuration.maximumHostConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, configuration.maximumConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAXCONNECTS, configuration.maximumConnections)
        megaton_curl_multi_setopt_long(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, configuration.maximumConcurrentStreams)
        setCallbacks(multi)
        // It holds this object, whose address the callbacks have, until they are called no longer.
        KernelThread.start("megaton-curl", stackSize: 1 << 20) { [self] in run() }
    }

    private func setCallbacks(_ multi: UnsafeMutableRawPointer) {
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

    /// Hands a transfer to the thread.
    func start(_ transfer: CurlTransfer) {
        transfer.wakeUp = { [weak self] in self?.tell { $0.hasCancelled = true } }
        transfer.didBuffer = { [weak self] in self?.buffered.append($0) }
        guard multi != nil, poller != nil else {
            return transfer.finish(
                ImageError(
                    .unreachable,
                    "The loader has no thread: the process may open no further files. Raise its limit (ulimit -n)."
                )
            )
        }
        let isAccepted = tell { news in
            if !news.isStopped { news.arrivals.append(transfer) }
            return !news.isStopped
        }
        if !isAccepted { transfer.finish(ImageError(.cancelled, "The loader was stopped.")) }
    }

    /// Ends the thread; transfers in progress fail with `.cancelled`.
    func stop() { tell { $0.isStopped = true } }

    /// Changes the news, and wakes the thread.
    @discardableResult private func tell<Result>(_ change: (inout News) -> Result) -> Result {
        let result = lock.withLock { change(&news) }
        poller?.wakeUp()
        return result
    }

    // MARK: - On the thread

    private func run() {
        guard let multi, let poller else { return }
        var events: [SocketPoller.Event] = []
        while true {
            let news = lock.withLock {
                defer { (self.news.arrivals, self.news.hasCancelled) = ([], false) }
                return self.news
            }
            if news.isStopped {
                for transfer in news.arrivals { transfer.finish(ImageError(.cancelled, "The loader was stopped.")) }
                break
            }
            for transfer in news.arrivals { add(transfer, to: multi) }
            if news.hasCancelled { removeCancelled(from: multi) }
            perform(multi, events)
            for transfer in buffered { transfer.deliver() }
            buffered.removeAll(keepingCapacity: true)
            collect(multi)
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

    /// Lets libcurl go on with the sockets that have news, and with what it has to do at this time.
    private func perform(_ multi: UnsafeMutableRawPointer, _ events: [SocketPoller.Event]) {
        var running: Int32 = 0
        for event in events {
            let news =
                (event.isReadable ? CURL_CSELECT_IN : 0) | (event.isWritable ? CURL_CSELECT_OUT : 0)
                | (event.hasEnded ? CURL_CSELECT_ERR : 0)
            // A socket that an earlier event has closed is unknown to libcurl by now, which ignores the call.
            curl_multi_socket_action(multi, event.socket, news, &running)
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
