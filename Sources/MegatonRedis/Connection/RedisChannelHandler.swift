import NIOCore

/// Matches replies to commands in order, closes the connection if a reply is overdue, and passes a subscriber's push
/// messages to its callback.
///
/// It is confined to its channel's event loop.
final class RedisChannelHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    /// Commands that are written together; their replies are delivered together.
    private struct Batch {
        var missing: Int
        var replies: [RedisValue]
        let deadline: NIODeadline
        let promise: EventLoopPromise<[RedisValue]>
    }

    private let reader = RedisReplyReader()
    private var pending = CircularBuffer<Batch>()
    private var overdueCheck: (timer: Scheduled<Void>, at: NIODeadline)?
    private var context: ChannelHandlerContext?
    private var failure: RedisError?
    private var isFlushScheduled = false
    /// Set once the connection has become a subscriber's; no command is pending from then on.
    var onPush: (([RedisValue]) -> Void)?

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        // Break the retain cycle: the callback retains its connection, and the connection retains this handler.
        onPush = nil
    }

    func send(_ commands: [RedisCommand], deadline: NIODeadline, promise: EventLoopPromise<[RedisValue]>) {
        guard let context, failure == nil, context.channel.isActive else {
            promise.fail(failure ?? RedisError(.connectionClosed, "The connection to Redis is closed."))
            return
        }
        // Append before writing: a failed flush closes the channel synchronously, and then only pending batches are
        // failed.
        if onPush == nil {
            pending.append(Batch(missing: commands.count, replies: [], deadline: deadline, promise: promise))
            scheduleOverdueCheck(context)
        }
        var encoder = RedisCommandEncoder(allocator: context.channel.allocator)
        for command in commands { encoder.encode(command) }
        for part in encoder.finish() { context.write(NIOAny(part), promise: nil) }
        flushSoon(context)
        if onPush != nil { promise.succeed([]) }
    }

    /// Flushes once for all commands sent in the same tick of the event loop: under load, commands of many tasks share
    /// one system call, and so do their replies.
    private func flushSoon(_ context: ChannelHandlerContext) {
        if isFlushScheduled { return }
        isFlushScheduled = true
        context.eventLoop.assumeIsolated().execute {
            self.isFlushScheduled = false
            self.context?.flush()
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        do throws(RedisError) {
            for reply in try reader.read(&bytes) { try accept(reply) }
        } catch {
            fail(error, context: context)
        }
    }

    private func accept(_ reply: RedisValue) throws(RedisError) {
        if let onPush {
            onPush(reply.array ?? [reply])
            return
        }
        guard !pending.isEmpty else {
            throw RedisError(.protocolError, "Redis sent a reply without a command.")
        }
        pending[pending.startIndex].replies.append(reply)
        pending[pending.startIndex].missing -= 1
        if pending[pending.startIndex].missing == 0 {
            let batch = pending.removeFirst()
            batch.promise.succeed(batch.replies)
            if let context { scheduleOverdueCheck(context) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(RedisError(.connectionClosed, "Redis closed the connection."), context: context)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(RedisTLS.error(of: error), context: context)
    }

    /// Fails all commands and closes the connection. It is never used again, because its position in the stream is
    /// unknown.
    private func fail(_ error: RedisError, context: ChannelHandlerContext) {
        guard failure == nil else { return }
        failure = error
        overdueCheck?.timer.cancel()
        let batches = pending
        pending.removeAll()
        context.close(promise: nil)
        for batch in batches { batch.promise.fail(error) }
    }

    /// Schedules a check for the first batch only: replies come in order, so any overdue batch is behind it or is it.
    /// The timer is moved only if the first batch has an earlier deadline, so that most commands need none.
    private func scheduleOverdueCheck(_ context: ChannelHandlerContext) {
        guard let first = pending.first else { return }
        if let overdueCheck {
            if overdueCheck.at <= first.deadline { return }
            overdueCheck.timer.cancel()
        }
        let timer = context.eventLoop.assumeIsolated().scheduleTask(deadline: first.deadline) { [weak self] in
            guard let self, let context = self.context else { return }
            self.overdueCheck = nil
            if let first = self.pending.first, first.deadline <= .now() {
                self.fail(
                    RedisError(.timeout, "Redis did not answer in time; the connection was closed."),
                    context: context
                )
            } else {
                self.scheduleOverdueCheck(context)
            }
        }
        overdueCheck = (timer, first.deadline)
    }
}
