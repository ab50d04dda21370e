import Foundation
import Testing

@testable import MegatonHTTP

/// Waits for sockets by epoll.
@Suite(.timeLimit(.minutes(1))) struct SocketPollerTests {
    /// Both ends of a connection.
    private final class Pair {
        let (one, other): (Int32, Int32)

        init() {
            var ends: [Int32] = [-1, -1]
            socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
            (one, other) = (ends[0], ends[1])
        }

        func send() { write(other, "a", 1) }

        deinit {
            close(one)
            close(other)
        }
    }

    private static let long: Duration = .seconds(30)

    @Test func aSocketIsReportedForWhatItIsWatchedFor() throws {
        let poller = try SocketPoller()
        let pair = Pair()
        poller.watch(pair.one, reads: true, writes: false)
        #expect(poller.wait(.zero).isEmpty)
        pair.send()
        let readable = try #require(poller.wait(Self.long).first)
        #expect(readable.socket == pair.one && readable.isReadable && !readable.isWritable && !readable.hasEnded)
        poller.watch(pair.one, reads: false, writes: true)
        let writable = try #require(poller.wait(Self.long).first)
        #expect(writable.isWritable && !writable.isReadable)
        poller.forget(pair.one)
        poller.forget(pair.one)
        #expect(poller.wait(.zero).isEmpty)
    }

    @Test func aWakeUpEndsTheNextWaitOnce() throws {
        let poller = try SocketPoller()
        poller.wakeUp()
        poller.wakeUp()
        #expect(poller.wait(Self.long).isEmpty)
        let start = ContinuousClock.now
        #expect(poller.wait(.microseconds(1500)).isEmpty && start.duration(to: .now) >= .microseconds(1500))
    }

    @Test func theNumberOfAClosedSocketCanBeWatchedAgain() throws {
        let poller = try SocketPoller()
        let (pair, other) = (Pair(), Pair())
        poller.watch(pair.one, reads: true, writes: false)
        // Closes the socket, and gives its number to the other one.
        dup2(other.one, pair.one)
        other.send()
        poller.watch(pair.one, reads: true, writes: false)
        #expect(poller.wait(Self.long).map(\.socket) == [pair.one])
    }

    @Test func allOfManySocketsAreReported() throws {
        let poller = try SocketPoller()
        let pairs = (0..<200).map { _ in Pair() }
        for pair in pairs {
            poller.watch(pair.one, reads: true, writes: false)
            pair.send()
        }
        var found: Set<Int32> = []
        while found.count < pairs.count {
            let events = poller.wait(Self.long)
            try #require(!events.isEmpty)
            for event in events {
                found.insert(event.socket)
                var byte: UInt8 = 0
                read(event.socket, &byte, 1)
            }
        }
        #expect(found == Set(pairs.map(\.one)))
    }

    @Test func theEndOfAConnectionIsReported() throws {
        let poller = try SocketPoller()
        let pair = Pair()
        poller.watch(pair.one, reads: true, writes: false)
        shutdown(pair.other, Int32(SHUT_RDWR))
        #expect(try #require(poller.wait(Self.long).first).hasEnded)
    }
}
