import Testing

@testable import MegatonCore

@Suite(.timeLimit(.minutes(1))) struct PromiseTests {
    @Test func theFirstValueCounts() async {
        let promise = Promise<Int>()
        promise.resolve(1)
        promise.resolve(2)
        #expect(await promise.value == 1)
        #expect(await promise.value == 1, "a value can be read again")
    }

    @Test func aWaiterIsResumedByTheValue() async {
        for _ in 0..<100 {
            let promise = Promise<Int>()
            async let value = promise.value
            Task { promise.resolve(3) }
            #expect(await value == 3)
        }
    }
}
