internal import CVips
internal import Foundation

extension VipsImage {
    /// Runs an operation by name. The caller has checked that the operation and its arguments are allowed.
    package func operation(
        _ name: String,
        _ arguments: [String: VipsArgument]
    ) throws(VipsError) -> VipsImage {
        // The C side borrows names and lists; they are freed after the call.
        var texts: [UnsafeMutablePointer<CChar>?] = []
        var lists: [UnsafeMutablePointer<Double>] = []
        defer {
            for text in texts { free(text) }
            for list in lists { list.deallocate() }
        }
        var all: [megaton_vips_argument] = []
        for (key, value) in arguments.sorted(by: { $0.key < $1.key }) {
            guard let name = strdup(key) else { throw VipsError("there is not enough memory") }
            texts.append(name)
            var argument = megaton_vips_argument(
                name: UnsafePointer(name),
                kind: MEGATON_VIPS_INT,
                whole: 0,
                number: 0,
                numbers: nil,
                count: 0,
                word: nil
            )
            switch value {
            case .int(let number): (argument.kind, argument.whole) = (MEGATON_VIPS_INT, Int32(clamping: number))
            case .double(let number): (argument.kind, argument.number) = (MEGATON_VIPS_DOUBLE, number)
            case .bool(let flag): (argument.kind, argument.whole) = (MEGATON_VIPS_BOOL, flag ? 1 : 0)
            case .doubles(let numbers):
                let list = UnsafeMutablePointer<Double>.allocate(capacity: max(1, numbers.count))
                list.initialize(repeating: 0, count: max(1, numbers.count))
                for (index, number) in numbers.enumerated() { list[index] = number }
                lists.append(list)
                (argument.kind, argument.numbers) = (MEGATON_VIPS_DOUBLES, UnsafePointer(list))
                argument.count = Int32(numbers.count)
            case .name(let word):
                let text = strdup(word)
                texts.append(text)
                (argument.kind, argument.word) = (MEGATON_VIPS_NAME, UnsafePointer(text))
            }
            all.append(argument)
        }
        return try Self.make { megaton_vips_call(name, pointer, all, Int32(all.count), $0) }
    }
}
