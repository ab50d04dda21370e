import Foundation
import MegatonPipeline

/// An in-memory cache that conforms to the contract, or breaks one point of it.
actor FaultyCache: DataCaching {
    enum Fault: String, Sendable {
        case inventsEntries, keepsNothing, keepsTheFirst, missesEmptyData, cutsLargeData, takesTheWholeBuffer
        case containsEverything, cannotRemove, removesAll, answersInItsOwnOrder, leavesOutMisses
        case ignoresCase, endsKeysAtNUL, cutsLongKeys, writesInTwoSteps, removesBeforeItWrites, readsItsNeighbour
    }

    private let fault: Fault?
    private var entries: [String: Data] = [:]
    private var lastKey = ""

    init(_ fault: Fault?) { self.fault = fault }

    func cachedData(for key: String) async -> Data? {
        let found = entries[name(key)]
        switch fault {
        case .inventsEntries: return found ?? Data("x".utf8)
        case .missesEmptyData: return found?.isEmpty == true ? nil : found
        // Wrong as soon as another task has written.
        case .readsItsNeighbour: return found == nil ? nil : entries[lastKey]
        default: return found
        }
    }

    func cachedData(for keys: [String]) async -> [Data?] {
        var found: [Data?] = []
        for key in fault == .answersInItsOwnOrder ? keys.sorted() : keys { found.append(await cachedData(for: key)) }
        return fault == .leavesOutMisses ? found.filter { $0 != nil } : found
    }

    func containsData(for key: String) async -> Bool {
        if fault == .containsEverything { return true }
        return await cachedData(for: key) != nil
    }

    func storeData(_ data: Data, for key: String) async {
        let name = name(key)
        lastKey = name
        switch fault {
        case .keepsNothing: break
        case .keepsTheFirst: entries[name] = entries[name] ?? data
        case .cutsLargeData: entries[name] = data.prefix(1 << 19)
        // The result of an offset that is counted from 0 instead of `startIndex`.
        case .takesTheWholeBuffer: entries[name] = data.startIndex == 0 ? data : Data(count: data.endIndex)
        case .writesInTwoSteps:
            entries[name] = data.prefix(data.count / 2)
            await othersGoFirst()
            entries[name] = data
        case .removesBeforeItWrites:
            entries[name] = nil
            await othersGoFirst()
            entries[name] = data
        default: entries[name] = data
        }
    }

    func removeData(for key: String) async {
        if fault == .cannotRemove { return }
        if fault == .removesAll { entries = [:] }
        entries[name(key)] = nil
    }

    func removeAll() async {
        if fault == .cannotRemove { return }
        entries = [:]
    }

    /// Yields long enough for a concurrent reader to read in between.
    private func othersGoFirst() async {
        for _ in 0..<50 { await Task.yield() }
    }

    private func name(_ key: String) -> String {
        switch fault {
        case .ignoresCase: key.lowercased()
        case .endsKeysAtNUL: String(key.prefix { $0 != "\0" })
        case .cutsLongKeys: String(key.prefix(1000))
        default: key
        }
    }
}
