internal import MegatonRedis
import Synchronization

/// Waiters in this process, by the channel of the flight that they wait for.
///
/// A process subscribes to the channel of a flight only while it waits for it, so that the end of a flight costs Redis
/// as many messages as processes wait. A landing between the lookup that found the flight and the subscription is
/// noticed by a second look at the flight, once the subscription is active.
final class FlightWaiters: Sendable {
    private struct Waiter {
        let subscribed = AsyncSignal()
        let landed = AsyncSignal()
        /// Whether its channel has been active.
        var isSubscribed = false
    }

    private struct State {
        var waiting: [String: [Int: Waiter]] = [:]
        var lastTicket = 0
    }

    private let state = Mutex(State())

    /// Waits for a landing, no longer than `limit`.
    ///
    /// - Parameter hasEnded: looks at the flight; called once the channel is active.
    func wait(
        on channel: String,
        of subscriptions: ChannelSubscriptions,
        atMost limit: Duration,
        hasEnded: @escaping @Sendable () async -> Bool
    ) async {
        let waiter = Waiter()
        // Registered before the subscription, whose confirmation may arrive at once.
        let ticket = state.withLock { state in
            state.lastTicket += 1
            state.waiting[channel, default: [:]][state.lastTicket] = waiter
            return state.lastTicket
        }
        if subscriptions.subscribe(to: channel) { note(waiter, ticket, on: channel) }
        await TimeLimit.wait(atMost: limit) {
            async let _: Void = {
                await waiter.subscribed.wait()
                if !Task.isCancelled, await hasEnded() { waiter.landed.signal() }
            }()
            await waiter.landed.wait()
        }
        state.withLock { state in
            state.waiting[channel]?[ticket] = nil
            if state.waiting[channel]?.isEmpty == true { state.waiting[channel] = nil }
        }
        subscriptions.unsubscribe(from: channel)
    }

    /// Lets the waiters of a channel look at their flight: messages arrive from now on. If the subscription was
    /// interrupted, they look up their entry, as messages may have been lost meanwhile.
    func subscribed(to channel: String) {
        let all = state.withLock { Array($0.waiting[channel] ?? [:]) }
        for (ticket, waiter) in all { note(waiter, ticket, on: channel) }
    }

    func landed(on channel: String) {
        let all = state.withLock { $0.waiting[channel].map { Array($0.values) } ?? [] }
        for waiter in all { waiter.landed.signal() }
    }

    private func note(_ waiter: Waiter, _ ticket: Int, on channel: String) {
        let wasSubscribed = state.withLock { state in
            guard let known = state.waiting[channel]?[ticket] else { return true }
            state.waiting[channel]?[ticket]?.isSubscribed = true
            return known.isSubscribed
        }
        if wasSubscribed { waiter.landed.signal() } else { waiter.subscribed.signal() }
    }
}
