import NIOCore
import Testing

@testable import MegatonRedis

/// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
@Suite struct HashSlotTests {
    @Test(arguments: [
        // The check value of CRC-16/XMODEM is 0x31C3.
        ("123456789", 0x31C3), ("foo", 12_182), ("", 0), ("{}", 15_257),
    ])
    func isTheCRCOfTheKey(_ key: String, _ slot: Int) {
        #expect(HashSlot.of(key) == slot % HashSlot.count)
        #expect(HashSlot.of(.buffer(ByteBuffer(string: key))) == HashSlot.of(key))
    }

    @Test func onlyTheFirstTagThatIsNotEmptyCounts() {
        #expect(HashSlot.of("{user1000}.following") == HashSlot.of("user1000"))
        #expect(HashSlot.of("{user1000}.followers") == HashSlot.of("user1000"))
        #expect(HashSlot.of("foo{{bar}}zap") == HashSlot.of("{bar"))
        #expect(HashSlot.of("foo{bar}{zap}") == HashSlot.of("bar"))
        #expect(HashSlot.of("foo{}{bar}") != HashSlot.of("bar"), "an empty tag: the whole key counts")
        #expect(HashSlot.of("foo{bar") != HashSlot.of("bar"))
        #expect(HashSlot.of("foo}bar{") != HashSlot.of("bar"))
        #expect(HashSlot.of("megaton:{default}:jobs") == HashSlot.of("default"))
    }
}
