"""Sorting and searching by hand: insertion sort, quicksort, heapsort, binary search, counting.

Origin: Cormen, Leiserson, Rivest, Stein, *Introduction to Algorithms*, 3rd edition, chapters 2, 6
and 7; Bentley, *Programming Pearls*, column 4.
"""


def main(np):
    """Sort the same numbers in three ways, and look for some of them."""
    numbers = (np.arange(300) * 7919) % 1009

    def insertion_sort(a):
        a = a.copy()
        for i in range(1, len(a)):
            key = a[i]
            j = i - 1
            while j >= 0 and a[j] > key:
                a[j + 1] = a[j]
                j -= 1
            a[j + 1] = key
        return a

    def quicksort(a, low, high):
        if low < high:
            pivot = a[high]
            i = low - 1
            for j in range(low, high):
                if a[j] <= pivot:
                    i += 1
                    a[i], a[j] = a[j], a[i]
            a[i + 1], a[high] = a[high], a[i + 1]
            quicksort(a, low, i)
            quicksort(a, i + 2, high)

    def heapsort(a):
        def sift(start, end):
            root = start
            while 2 * root + 1 <= end:
                child = 2 * root + 1
                if child + 1 <= end and a[child] < a[child + 1]:
                    child += 1
                if a[root] >= a[child]:
                    return
                a[root], a[child] = a[child], a[root]
                root = child

        n = len(a)
        for start in range(n // 2 - 1, -1, -1):
            sift(start, n - 1)
        for end in range(n - 1, 0, -1):
            a[0], a[end] = a[end], a[0]
            sift(0, end - 1)

    def binary_search(a, value):
        low, high = 0, len(a) - 1
        while low <= high:
            middle = (low + high) // 2
            if a[middle] == value:
                return middle
            if a[middle] < value:
                low = middle + 1
            else:
                high = middle - 1
        return -1

    inserted = insertion_sort(numbers[:80])
    quick = numbers.copy()
    quicksort(quick, 0, len(quick) - 1)
    heap = numbers.copy()
    heapsort(heap)
    places = np.array([binary_search(quick, value) for value in range(0, 1009, 5)])
    counts = np.zeros(10, dtype=int)
    for value in numbers:
        counts[value % 10] += 1
    return {"inserted": inserted, "quick": quick, "heap": heap, "places": places, "counts": counts}
